"""A process that a handler forks meets signals as it would have without a worker."""

import signal
from pathlib import Path

import pytest
from worker_bench import bench, records

COUNT = 2


async def _lines(folder: Path, handler: str) -> list[str]:
    """What `handler` has written once it has had COUNT records."""
    async with bench(folder, handler) as b:
        (p,) = b.assign(("t", 0))
        b.feed(p, records(0, COUNT))
        await b.settled(p, COUNT)
        assert not p.failed
        return b.lines()


async def test_a_pool_ends_with_its_block_and_a_child_can_be_terminated(tmp_path: Path) -> None:
    handler = """
        import multiprocessing
        from concurrent.futures import ProcessPoolExecutor

        FORK = multiprocessing.get_context("fork")

        def square(number):
            return number * number

        def handler(context, event):
            child = FORK.Process(target=time.sleep, args=(600,))
            child.start()
            child.terminate()
            child.join()
            with FORK.Pool(2) as pool:
                total = sum(pool.map(square, range(20)))
            with ProcessPoolExecutor(2, FORK) as pool:
                write(f"{child.exitcode} {total} {sum(pool.map(square, range(20)))}")
    """
    assert await _lines(tmp_path, handler) == ["-15 2470 2470"] * COUNT


@pytest.mark.parametrize("word", ["", "async "])
async def test_a_signal_that_comes_at_once_ends_it(tmp_path: Path, word: str) -> None:
    """Even before the new process has given itself its own handlers."""
    handler = f"""
        {word}def handler(context, event):
            ended = []
            for signum in (signal.SIGTERM, signal.SIGKILL) * 20:
                if not (child := os.fork()):
                    signal.pause()
                os.kill(child, signum)
                ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            write(f"{{set(ended[::2])}} {{set(ended[1::2])}}")
    """
    assert await _lines(tmp_path, handler) == ["{-15} {-9}"] * COUNT


async def test_it_has_the_handlers_that_it_would_have_had(tmp_path: Path) -> None:
    handler = """
        def mine(*_): ...

        def seen():
            names = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGRTMAX - 3)
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
            return [getattr(it, "__name__", it) for it in map(signal.getsignal, names)], blocked

        def handler(context, event):
            before = seen()
            if not (child := os.fork()):
                write((*seen(), signal.set_wakeup_fd(-1)))
                os._exit(0)
            os.waitpid(child, 0)
            assert seen() == before
            signal.signal(signal.SIGTERM, mine)
    """
    usual, own = await _lines(tmp_path, handler)
    # Where these tests run in the background of a shell, it is ignored, and so it would have been there.
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    of_sigint = "<Handlers.SIG_IGN: 1>" if is_ignored else "'default_int_handler'"
    rest = "<Handlers.SIG_DFL: 0>, <Handlers.SIG_DFL: 0>], set(), -1)"
    assert usual == f"([{of_sigint}, <Handlers.SIG_DFL: 0>, {rest}"
    assert own == f"([{of_sigint}, 'mine', {rest}"


async def test_signals_that_its_parents_loop_waits_for_are_its_own(tmp_path: Path) -> None:
    handler = """
        def init_context(context):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, write, "the parent's")

        async def handler(context, event):
            if not (child := os.fork()):
                signal.pause()
            os.kill(child, signal.SIGTERM)
            status = os.waitpid(child, 0)[1]
            await asyncio.sleep(0)
            write(os.waitstatus_to_exitcode(status))
    """
    assert await _lines(tmp_path, handler) == ["-15"] * COUNT


async def test_one_that_a_thread_forks_is_the_same(tmp_path: Path) -> None:
    handler = """
        import threading

        def fork():
            if not (child := os.fork()):
                signal.pause()
            os.kill(child, signal.SIGTERM)
            write(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

        def handler(context, event):
            threads = [threading.Thread(target=fork) for _ in range(4)]
            for it in threads:
                it.start()
            for it in threads:
                it.join()
    """
    assert await _lines(tmp_path, handler) == ["-15"] * 4 * COUNT


async def test_a_fork_amid_a_fork_leaves_no_signal_blocked(tmp_path: Path) -> None:
    """As by a signal handler of Python's, which comes between two steps of anything."""
    handler = """
        import signal
        import sys

        def end(pid):
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)

        def amid(frame, event, _):
            if event == "return" and frame.f_code.co_filename.endswith("forks.py"):
                sys.setprofile(None)
                end(os.fork())
                write("another")

        def handler(context, event):
            sys.setprofile(amid)
            end(os.fork())
            write(len(signal.pthread_sigmask(signal.SIG_BLOCK, ())))
    """
    assert await _lines(tmp_path, handler) == ["another", "0"] * COUNT
