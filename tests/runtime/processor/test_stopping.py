"""A stop that comes while something starts, comes twice, or comes from a terminal that is gone."""

import os
import signal
import subprocess
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from broker import Broker
from command import one_line
from forked import PROGRAM
from hanging_java import STEPS, hanging, hanging_java, left_behind
from kafka_records import produce
from processes import below, children_of, is_running, java_children
from replica import (
    Replica,
    environment,
    lines,
    replica,
    set_spec,
    set_trigger,
    wait_until,
    write_function,
)

WAITS = """
    def handler(context, event):
        write("in it")
        wait_for("never")
"""


@pytest.fixture(autouse=True)
def default_signals() -> Iterator[None]:
    """What a test starts heeds signals, whatever the tests themselves were started with (nohup, `&`)."""
    before = {signum: signal.signal(signum, signal.SIG_DFL) for signum in (signal.SIGHUP, signal.SIGQUIT)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def function_for(folder: Path, step: str) -> tuple[str, ...]:
    """A function that starts what hangs at `step`, and the options for it."""
    function = write_function(folder / "f", WAITS, "127.0.0.1:1", ["t"])
    if step == "spark":
        set_spec(function, spark={})
        return (str(function),)
    return (str(function), "--embedded-kafka")


@pytest.mark.full_but("broker-2")
@pytest.mark.parametrize(
    ("step", "signum"),
    [*((step, signal.SIGINT) for step in STEPS), ("broker", signal.SIGTERM), ("broker", signal.SIGHUP)],
)
def test_a_stop_ends_what_is_starting_and_waits_for_nothing(
    tmp_path: Path, step: str, signum: signal.Signals
) -> None:
    env = hanging_java(tmp_path, step)
    command = [*PROGRAM, "run", *function_for(tmp_path, step), "--admin-port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as run:
        try:
            wait_until(lambda: hanging(tmp_path) or run.poll() is not None)
            run.send_signal(signum)
            _, said = run.communicate(timeout=15)  # each step by itself waits for 20 s and more
        finally:
            run.kill()
    assert (run.returncode, said.splitlines()[-1].split()[-1]) == (0, "stopped"), said
    assert "Traceback" not in said
    assert len(hanging(tmp_path)) == 1
    assert not any(map(is_running, hanging(tmp_path)))
    assert left_behind(tmp_path) == []


@pytest.mark.full
@pytest.mark.parametrize("replicas", ["1", "2"])
def test_a_second_signal_leaves_no_process_and_no_file(
    tmp_path: Path, short_tmp: Path, replicas: str
) -> None:
    with stuck_in_a_record(tmp_path / "f", short_tmp, "--replicas", replicas) as run:
        pids = [*children_of(run.process.pid), *run.worker_pids(), *java_children(run.process.pid)]
        run.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "SIGTERM: stopping" in run.log, about=run)
        run.process.send_signal(signal.SIGINT)
        assert run.process.wait(60) == 128 + signal.SIGINT
        assert list(short_tmp.iterdir()) == []
        wait_until(lambda: not any(map(is_running, pids)))
    assert list(short_tmp.iterdir()) == []


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """For temporary files: those of pytest are too deep for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@contextmanager
def stuck_in_a_record(folder: Path, temporary: Path, *arguments: str) -> Iterator[Replica]:
    """A run on a Kafka of its own, whose handler never returns; its temporary files are in `temporary`."""
    function = write_function(folder, WAITS, "127.0.0.1:1", ["t"])
    set_trigger(function, workerTerminationTimeout="10m")
    program = ("env", f"TMPDIR={temporary}", *PROGRAM)
    with replica(function, "--embedded-kafka", *arguments, program=program) as running:
        running.wait_ready()
        kafka = running.log.split("embedded Kafka at ")[1].split()[0]
        produce(Broker(kafka, "embedded"), "t", 1)
        wait_until(lambda: lines(function), about=running)
        yield running


@pytest.mark.full
def test_the_two_signals_of_a_closed_terminal_are_one_stop(
    broker: Broker, topic: str, tmp_path: Path
) -> None:
    folder = write_function(tmp_path / "f", WAITS, broker.bootstrap, [topic])
    produce(broker, topic, 1)
    with replica(folder) as running:
        wait_until(lambda: lines(folder), about=running)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "SIGHUP: stopping" in running.log, about=running)
        running.process.send_signal(signal.SIGHUP)
        (folder / "never").touch()
        assert running.process.wait(120) == 0
        assert "second SIGHUP" not in running.log


def test_under_nohup_a_closed_terminal_stops_nothing(broker: Broker, topic: str, tmp_path: Path) -> None:
    folder = write_function(tmp_path / "f", WAITS, broker.bootstrap, [topic])
    with replica(folder, program=("nohup", *PROGRAM)) as running:
        running.wait_ready()
        running.process.send_signal(signal.SIGHUP)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(120) == 0
        assert "SIGHUP" not in running.log
        assert "SIGINT: stopping" in running.log


def test_a_run_whose_terminal_is_closed_ends_and_leaves_nothing(tmp_path: Path) -> None:
    env = hanging_java(tmp_path, "broker")
    ours, theirs = os.openpty()
    # Who leads a session and opens a terminal is told when that is closed.
    command = f'exec <>{os.ttyname(theirs)} >&0 2>&0 && exec "$@"'
    words = ["sh", "-c", command, "sh", *PROGRAM, "run", *function_for(tmp_path, "broker")]
    with subprocess.Popen([*words, "--admin-port", "0"], env=env, start_new_session=True) as run:
        try:
            wait_until(lambda: hanging(tmp_path) or run.poll() is not None)
            os.close(theirs)
            os.close(ours)
            assert run.wait(60) == 0
        finally:
            run.kill()
    assert not any(map(is_running, hanging(tmp_path)))
    assert left_behind(tmp_path) == []


def test_a_folder_whose_name_is_too_long_for_sockets_is_one_line(tmp_path: Path) -> None:
    function = write_function(tmp_path / "f", WAITS, "127.0.0.1:1", ["t"])
    (deep := tmp_path / ("deep" * 20)).mkdir()
    command = [*PROGRAM, "run", str(function), "--replicas", "2", "--admin-port", "0"]
    env = environment(TMPDIR=str(deep))
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert "point TMPDIR at one with a shorter name" in one_line(done, code=2)


def test_a_kafka_for_commands_leaves_nothing_when_its_terminal_goes_while_it_starts(tmp_path: Path) -> None:
    env = hanging_java(tmp_path, "broker")
    with subprocess.Popen([*PROGRAM, "kafka", "up", "--port", "0"], env=env) as up:
        try:
            wait_until(lambda: hanging(tmp_path) or up.poll() is not None)
            up.send_signal(signal.SIGHUP)
            up.send_signal(signal.SIGINT)
            assert up.wait(60) == 0
        finally:
            up.kill()
    assert not any(map(is_running, hanging(tmp_path)))
    assert left_behind(tmp_path) == []


NEVER = """
    import time
    print("it is never loaded", flush=True)
    time.sleep(600)
    def handler(context, event): ...
"""


@pytest.mark.full_but("arguments0")
@pytest.mark.parametrize("arguments", [("--replicas", "1"), ("--replicas", "2"), ("--embedded-kafka",)])
def test_a_stop_waits_for_no_module_that_is_being_loaded(
    tmp_path: Path, short_tmp: Path, arguments: tuple[str, ...]
) -> None:
    function = write_function(tmp_path / "f", NEVER, "127.0.0.1:1", ["t"])
    with replica(function, *arguments, program=("env", f"TMPDIR={short_tmp}", *PROGRAM)) as running:
        wait_until(lambda: "it is never loaded" in running.log, about=running)
        pids = below(running.process.pid)
        stop_in_seconds(running, signal.SIGINT)
        assert "what is starting is ended" in running.log
        assert not any(map(is_running, pids))
    assert list(short_tmp.iterdir()) == []


@pytest.mark.full
def test_a_stop_does_not_wait_for_a_spark_that_has_served_nobody(tmp_path: Path, short_tmp: Path) -> None:
    function = set_spec(write_function(tmp_path / "f", NEVER, "127.0.0.1:1", ["t"]), spark={})
    with replica(function, program=("env", f"TMPDIR={short_tmp}", *PROGRAM)) as running:
        wait_until(lambda: "it is never loaded" in running.log, about=running)
        pids, (spark,) = below(running.process.pid), java_children(running.process.pid)
        os.kill(spark, signal.SIGSTOP)  # it can't heed anything but a kill
        stop_in_seconds(running, signal.SIGTERM)
        assert not any(map(is_running, pids))
    assert list(short_tmp.iterdir()) == []


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stop_before_anything_was_started_is_one_line(tmp_path: Path, signum: signal.Signals) -> None:
    function = write_function(tmp_path / "f", WAITS, "127.0.0.1:1", ["t"])
    program = at_start(
        tmp_path,
        f"""
        import pathlib, sys, time
        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "headrace.runtime.processor.run":
                    pathlib.Path({str(tmp_path / "imports")!r}).touch()
                    time.sleep(600)
        sys.meta_path.insert(0, Slow())
        """,
    )
    with replica(function, program=program) as running:
        wait_until((tmp_path / "imports").exists, about=running)
        stop_in_seconds(running, signum)
        assert running.log == f"headrace: {signum.name}: stopped, before anything was started\n"


@pytest.mark.full
def test_a_stop_does_not_wait_for_a_name_server_that_is_away(tmp_path: Path) -> None:
    function = write_function(tmp_path / "f", WAITS, "broker.invalid:9092", ["t"])
    program = at_start(
        tmp_path,
        f"""
        import pathlib, socket, time
        def getaddrinfo(host, *rest, ask=socket.getaddrinfo, **more):
            if host == "broker.invalid":
                pathlib.Path({str(tmp_path / "asked")!r}).touch()
                time.sleep(600)
            return ask(host, *rest, **more)
        socket.getaddrinfo = getaddrinfo
        """,
    )
    with replica(function, program=program) as running:
        wait_until((tmp_path / "asked").exists, about=running)
        stop_in_seconds(running, signal.SIGINT)
        assert running.log.endswith("stopped\n")


def at_start(folder: Path, code: str) -> tuple[str, ...]:
    """The program, each process of which runs this first."""
    (folder / "path").mkdir()
    (folder / "path" / "sitecustomize.py").write_text(textwrap.dedent(code))
    return ("env", f"PYTHONPATH={folder / 'path'}", *PROGRAM)


def stop_in_seconds(running: Replica, signum: signal.Signals) -> None:
    """A second is what people are told; the bound is loose, for whatever else this machine does."""
    began = time.monotonic()
    running.process.send_signal(signum)
    assert running.process.wait(10) == 0, running.log
    print(f"stopped within {time.monotonic() - began:.2f} s")  # noqa: T201
    assert "Traceback" not in running.log


@pytest.mark.full
def test_a_stop_does_not_wait_for_replicas_that_are_still_loading(tmp_path: Path, short_tmp: Path) -> None:
    function = write_function(tmp_path / "f", WAITS, "127.0.0.1:1", ["t"])
    set_trigger(function, workerTerminationTimeout="10m")
    slow = "import sys, time\nif '--replica-name' in sys.orig_argv:\n    time.sleep(600)\n"
    program = ("env", f"TMPDIR={short_tmp}", *at_start(tmp_path, slow))
    with replica(function, "--replicas", "2", program=program) as running:
        wait_until(lambda: len(children_of(running.process.pid)) == 2, about=running)
        running.process.send_signal(signal.SIGINT)
        assert running.process.wait(60) == 0
    assert list(short_tmp.iterdir()) == []
