"""Requests that overlap in one worker: each answered by its own, whole or in parts."""

import asyncio
from pathlib import Path

from http_function import http_function
from worker_bench import until

GATED = """
    async def handler(context, event):
        write(event.path)
        while not exists(event.path[1:]) and not exists("all"):
            await asyncio.sleep(0.005)
        return f"at {event.path}"
"""


async def test_as_many_requests_as_it_says_are_in_the_handler_and_each_has_its_own_answer(
    tmp_path: Path,
) -> None:
    async with http_function(tmp_path, GATED, attributes={"maxConcurrency": 5}) as f:
        asked = [f.begin(f"/{number}") for number in range(5)]
        await until(lambda: len(f.lines()) == 5)
        for number in (3, 0, 4):
            (f.folder / str(number)).touch()
            said = await asked[number]
            assert (said.status, said.body) == (200, f"at /{number}".encode())
        assert not asked[1].done()
        assert not asked[2].done()
        (f.folder / "all").touch()
        assert [(await task).body for task in asked] == [f"at /{number}".encode() for number in range(5)]


async def test_one_that_raises_or_is_late_or_comes_in_parts_disturbs_no_other(tmp_path: Path) -> None:
    handler = """
        async def parts():
            for part in ("a", "b", "c"):
                await asyncio.sleep(0.01)
                yield part * 100_000

        def quick_parts():
            yield from ("x", "y")

        async def handler(context, event):
            match event.path:
                case "/raises":
                    raise ValueError("no")
                case "/sorry":
                    return context.Response(body="sorry", status_code=503)
                case "/late":
                    await asyncio.Event().wait()
                case "/parts":
                    return context.Response(body=parts())
                case "/quick":
                    return context.Response(body=quick_parts())
            await asyncio.sleep(0.02)
            return "well"
    """
    more = {"eventTimeout": "1s"}
    async with http_function(tmp_path, handler, attributes={"maxConcurrency": 20}, spec=more) as f:
        paths = ["/", "/raises", "/sorry", "/parts", "/late", "/quick", "/"] * 3
        said = await asyncio.gather(*(f.ask(path) for path in paths))
        by_path = {path: (it.status, it.body) for path, it in zip(paths, said, strict=True)}
        assert by_path["/"] == (200, b"well")
        assert by_path["/raises"][0] == 500
        assert by_path["/sorry"] == (503, b"sorry")
        assert by_path["/late"][0] == 408
        assert by_path["/parts"] == (200, b"a" * 100_000 + b"b" * 100_000 + b"c" * 100_000)
        assert by_path["/quick"] == (200, b"xy")
        assert f.running.dispatcher.workers[0].restarts == 0


async def test_a_worker_that_dies_answers_all_that_it_was_in_with_502(tmp_path: Path) -> None:
    handler = GATED.replace(
        "return f", 'os.kill(os.getpid(), signal.SIGKILL) if event.path == "/2" else None\n        return f'
    )
    async with http_function(tmp_path, handler, attributes={"maxConcurrency": 4}) as f:
        asked = [f.begin(f"/{number}") for number in range(4)]
        await until(lambda: len(f.lines()) == 4)
        (f.folder / "2").touch()
        assert [(await task).status for task in asked] == [502] * 4
        (f.folder / "all").touch()
        assert (await f.ask("/9")).status == 200
