"""Headers of an answer: those that HTTP can say, and no two that speak of the same."""

import pytest

from headrace.runtime.wire.reply import Reply
from headrace.triggers.http.responses import headers_of, is_empty


def reply(*headers: tuple[str, bytes], content_type: str = "a/b") -> Reply:
    return Reply(200, content_type, headers, b"")


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "gr\u00fcn", "a\0", "(a)", "a\x7f", "a\n"])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"called .* HTTP can't say"):
        headers_of(reply((name, b"x")), {})


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\n", b"\0", b"a\x01", b"a\x7f", b"\xff"])
def test_a_value_that_is_no_line_of_text_is_refused_and_named(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"the header X-Why has .* HTTP can't say"):
        headers_of(reply(("X-Why", value)), {})


@pytest.mark.parametrize("content_type", ["a/b\r\nx: y", "a\x01", "a\udcff"])
def test_so_is_a_content_type(content_type: str) -> None:
    with pytest.raises(ValueError, match="the header Content-Type has"):
        headers_of(reply(content_type=content_type), {})


def test_text_beyond_ascii_and_tabs_are_said_and_a_name_may_come_twice() -> None:
    cookies = (("Set-Cookie", b"a"), ("Set-Cookie", b"b"))
    found = headers_of(reply(("x!#$%&'*+-.^_`|~1", "\u20ac\t,".encode()), ("empty", b""), *cookies), {})
    assert found["x!#$%&'*+-.^_`|~1"] == "\u20ac\t,"
    assert found["empty"] == ""
    assert found.getall("set-cookie") == ["a", "b"]


def test_a_handlers_word_goes_before_ours_and_each_of_them_stands_there_once() -> None:
    told = {"Vary": "Origin", "Access-Control-Allow-Origin": "https://a"}
    said = (
        ("server", b"mine"),
        ("date", b"now"),
        ("access-control-allow-origin", b"*"),
        ("vary", b"Accept"),
        ("content-type", b"c/d"),
    )
    found = headers_of(reply(*said), told)
    assert found.getall("Server") == ["mine"]
    assert found.getall("Date") == ["now"]
    assert found.getall("Access-Control-Allow-Origin") == ["*"]
    assert sorted(found.getall("Vary")) == ["Accept", "Origin"]
    assert found.getall("Content-Type") == ["a/b"]
    assert headers_of(reply(), {})["Server"] == "headrace"


@pytest.mark.parametrize(
    "name",
    ["Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "TE", "Trailer", "Transfer-Encoding"],
)
def test_what_two_neighbours_tell_each_other_is_not_a_handlers_to_say(name: str) -> None:
    found = headers_of(reply((name, b"1"), (name.upper(), b"1"), (name.lower(), b"chunked")), {})
    assert name not in found


def test_an_answer_to_head_and_one_that_says_that_it_has_no_body_have_none() -> None:
    assert [is_empty("GET", status) for status in (200, 204, 205, 206, 304, 404)] == [
        False,
        True,
        True,
        False,
        True,
        False,
    ]
    assert is_empty("HEAD", 200)
