"""What a handler may do to its process, and what the dispatcher makes of it."""

import asyncio
import logging
from pathlib import Path

import pytest
from worker_bench import bench, records, until

from headrace.runtime.errors import HandlerLoadError


@pytest.mark.full_but("import no_such_module-No module named 'no_such_module'", "1 / 0-ZeroDivisionError")
@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("1 / 0", "ZeroDivisionError"),
        (
            "def other(context, event): ...",
            "has no function 'handler'; it has write, exists, wait_for, scribble, other",
        ),
        ("def init_context(context): raise OSError('no database')\ndef handler(c, e): ...", "no database"),
        ("os._exit(3)", "exit code 3"),
    ],
)
async def test_a_handler_that_cannot_be_loaded_says_why(tmp_path: Path, handler: str, expected: str) -> None:
    with pytest.raises(HandlerLoadError, match=expected):
        async with bench(tmp_path, handler):
            pass


async def test_prints_and_log_lines_name_their_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        import logging
        class Thing:
            def __log__(self):
                return {"of": "mine"}
        def handler(context, event):
            print("printed")
            context.logger.info_with("logged", answer=42, thing=Thing(), many=[float("nan")])
            context.logger.debug("unheard")
            context.logger.info_with("claimed", worker="mine", offset=-1)
            logging.getLogger("mine.own").warning("named", extra={"customer": "Ada"})
            try:
                raise KeyError("amid")
            except KeyError:
                logging.exception("caught")
    """
    with caplog.at_level("INFO"):
        async with bench(tmp_path, handler) as b:
            (p,) = b.assign(("t", 3))
            b.feed(p, records(0, 1))
            await b.settled(p, 1)
    lines = {record.getMessage(): vars(record) for record in caplog.records if record.name == "handler"}
    where = {"worker": 0, "topic": "t", "partition": 3, "offset": 0}
    assert all(line["bound"] == where for line in lines.values())
    assert lines["printed"]["given"] == {}
    assert lines["logged"]["given"] == {"answer": 42, "thing": {"of": "mine"}, "many": ["NaN"]}
    assert "unheard" not in lines
    assert lines["claimed"]["given"] == {"worker": "mine", "offset": -1}
    assert (lines["named"]["source"], lines["named"]["given"]) == ("mine.own", {"customer": "Ada"})
    assert lines["caught"]["error"].endswith("KeyError: 'amid'")
    assert not {"source", "error"} & lines["logged"].keys()


async def test_at_debug_a_handler_is_heard_and_libraries_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    handler = """
        import concurrent.futures, logging, uuid

        def library(name):
            code = compile(f"logging.getLogger({name!r}).debug({name!r})", uuid.__file__, "exec")
            exec(code, {"logging": logging})

        def handler(context, event):
            logging.debug("by root")
            logging.getLogger(__name__).debug("by name")
            context.logger.debug("by context")
            library("a.library")
            logging.getLogger("wanted").setLevel(logging.DEBUG)
            library("wanted.library")
            asyncio.new_event_loop().close()  # says which selector it has
    """
    with caplog.at_level("DEBUG"):
        async with bench(tmp_path, handler, log_level=logging.DEBUG) as b:
            (p,) = b.assign(("t", 0))
            b.feed(p, records(0, 1))
            await b.settled(p, 1)
    said = [record.getMessage() for record in caplog.records if record.name == "handler"]
    assert said == ["by root", "by name", "by context", "wanted.library"]


@pytest.mark.parametrize(
    "handler",
    [
        """
        import logging
        def handler(context, event):
            logging.info("x", extra={"with": [1]})
            logging.info("%d items", "not a number")
            context.logger.info_with("y", d={(1, 2): 3}, loop=print)
        """,
        """
        import subprocess
        def handler(context, event):
            subprocess.run(["echo", "hello"], stdout=sys.stdout, check=True)
            sys.stdout.buffer.write(b"bytes")
        """,
    ],
    ids=["unusual log calls", "stdout as a file"],
)
async def test_output_of_any_kind_fails_no_record(tmp_path: Path, handler: str) -> None:
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert not p.failed


async def test_a_handler_that_prints_without_end_does_not_hold_up_the_processor(tmp_path: Path) -> None:
    handler = """
        def handler(context, event):
            write("in")
            while not exists("go"):
                for _ in range(200):
                    print("x" * 200)
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await until(b.lines)
        for _ in range(20):
            await asyncio.sleep(0)
            b.dispatcher.sync_progress()  # would not return before the handler does
        (tmp_path / "go").touch()
        await b.settled(p, 1)


@pytest.mark.full_but("async generator", "generator")
@pytest.mark.parametrize(
    "handler",
    [
        """
        async def work():
            await asyncio.sleep(0.01)
            write("ran")
        def handler(context, event):
            return asyncio.get_event_loop().create_task(work())
        """,
        """
        def handler(context, event):
            async def chunks():
                await asyncio.sleep(0.01)
                yield "a"
                write("ran")
            return chunks()
        """,
        """
        def handler(context, event):
            yield "a"
            write("ran")
        """,
        """
        async def handler(context, event):
            yield "a"
            await asyncio.sleep(0.01)
            write("ran")
        """,
    ],
    ids=["task", "async generator", "generator", "async generator handler"],
)
async def test_a_result_that_has_still_to_run_is_run_before_its_record_counts(
    tmp_path: Path, handler: str
) -> None:
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert b.lines() == ["ran"] * 3


async def test_after_nonsense_from_a_worker_nothing_that_it_did_not_report_counts(tmp_path: Path) -> None:
    handler = """
        import struct
        def handler(context, event):
            write(f"{event.shard_id} {event.offset}")
            if event.shard_id == 0 and event.offset == 301 and not exists("said"):
                write("", "said")
                os.write(int(sys.argv[1]), struct.pack("<II", 4, 99))
                raise ValueError("this must not be lost behind the nonsense")
    """
    async with bench(tmp_path, handler) as b:
        bad, other = b.assign(("t", 0), ("t", 1))
        b.feed(bad, records(0, 300))
        await b.settled(bad, 300)
        b.dispatcher.add(bad, records(300, 4))
        b.dispatcher.add(other, records(0, 4))
        b.dispatcher.dispatch()
        await b.settled(bad, 304)
        await b.settled(other, 4)
        assert b.lines().count("0 301") >= 2
        assert {f"0 {offset}" for offset in range(304)} <= set(b.lines())
        assert b.dispatcher.workers[0].restarts == 1


async def test_what_a_handler_forks_does_not_speak_for_it(tmp_path: Path) -> None:
    handler = """
        import multiprocessing
        def shout():
            for _ in range(20):
                print("x" * 200_000)
        def handler(context, event):
            children = [multiprocessing.get_context("fork").Process(target=shout) for _ in range(3)]
            for child in children:
                child.start()
            print("y" * 200_000)
            for child in children:
                child.join()
                assert child.exitcode == 0
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 3))
        await b.settled(p, 3)
        assert (dict(p.failed), b.dispatcher.workers[0].restarts) == ({}, 0)


async def test_init_context_is_that_of_the_module_which_defines_the_handler(tmp_path: Path) -> None:
    (tmp_path / "impl.py").write_text(
        "def init_context(context):\n    context.user_data.where = 'impl'\n\n"
        "def handler(context, event):\n    write(context.user_data.where)\n"
    )
    handler = """
        import impl
        from impl import handler
        impl.write = write
        def init_context(context):
            context.user_data.where = "here"
    """
    async with bench(tmp_path, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, 1))
        await b.settled(p, 1)
        assert b.lines() == ["impl"]
