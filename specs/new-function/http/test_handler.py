from handler import handler

from headrace.testing import run_handler


def test_words_are_counted():
    run = run_handler(handler, [b"one two", b"three"])
    assert run.results == ["2 words\n", "1 words\n"]


def test_a_body_that_is_no_text_is_a_failure():
    run = run_handler(handler, [b"\xff"])
    assert "UnicodeDecodeError" in run.failures[0]
