from handler import handler

from headrace.testing import run_handler


def test_the_words_of_a_batch_are_counted():
    run = run_handler(handler, [b"one two", b"three"], is_batch=True)
    assert run.failures == []
    assert [line.values for line in run.logs] == [{"records": 2, "words": 3}]


def test_a_body_that_is_no_text_fails_its_batch():
    run = run_handler(handler, [b"one", b"\xff"], is_batch=True)
    assert len(run.failures) == 2
