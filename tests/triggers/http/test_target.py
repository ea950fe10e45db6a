"""What the first line of a request asks for: its path, its query, its address."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.triggers.http.target import fields_of, path_of, query_of, url_of


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/", "/"),
        ("/a/../b", "/b"),
        ("/a//b/./c/", "/a/b/c/"),
        ("/%2e%2e/%2e%2e/etc", "/etc"),
        ("/..", "/"),
        ("//x/y", "/x/y"),
        ("http://host/p?q", "/p"),
        ("http://host?q=/p", "/"),
        ("*", "/"),
        ("/a?b=/../c", "/a"),
        ("/a#b?c", "/a"),
    ],
)
def test_paths_have_no_way_around(target: str, path: str) -> None:
    assert path_of(target) == path


@given(st.text())
def test_any_path_begins_with_one_slash_and_has_no_dots(target: str) -> None:
    path = path_of(target)
    assert path.startswith("/")
    assert not {"", ".", ".."} & set(path[1:].rstrip("/").split("/") if path != "/" else [])


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        ("", {}),
        ("tags=a", {"tags": "a"}),
        ("tags=a&tags=b", {"tags": ["a", "b"]}),
        ("tags=b&x=1&tags=&tags=b", {"tags": ["b", "", "b"], "x": "1"}),
        ("a&b=&=c", {"a": "", "b": "", "": "c"}),
        ("&&a=1&&", {"a": "1"}),
        ("a=1;b=2", {"a": "1;b=2"}),
        ("a+b=c+d%20e%2B", {"a b": "c d e+"}),
        ("a=b=c?d=/e", {"a": "b=c?d=/e"}),
        ("a=%C3%A9&b=%zz&c=%&d=%ff", {"a": "\u00e9", "b": "%zz", "c": "%", "d": "\ufffd"}),
        ("a=1#&b=2", {"a": "1"}),
    ],
)
def test_a_query_has_a_name_once_with_its_value_or_with_all_of_its_values(
    query: str, fields: dict[str, object]
) -> None:
    for target in ("/x", "http://host/x", "*"):
        assert fields_of(query_of(f"{target}?{query}")) == fields
    if "%ff" not in query:
        in_bytes = {
            name.encode(): [one.encode() for one in said] if isinstance(said, list) else str(said).encode()
            for name, said in fields.items()
        }
        assert fields_of(query_of(f"/x?{query}").encode()) == in_bytes


def test_what_stands_behind_a_fragment_is_no_query() -> None:
    assert query_of("/x#y?a=1") == ""


def test_a_query_of_any_length_has_all_of_its_names() -> None:
    assert len(fields_of("&".join(f"a{n}=1" for n in range(20_000)))) == 20_000


@pytest.mark.parametrize(
    ("target", "url"),
    [
        ("/a?b=c", "http://here:80/a?b=c"),
        ("http://there/a?b", "http://there/a?b"),
        ("HTTPS://there", "HTTPS://there"),
        ("*", "http://here:80"),
    ],
)
def test_an_address_is_the_hosts_unless_the_request_names_a_whole_one(target: str, url: str) -> None:
    assert url_of(target, "here:80") == url
