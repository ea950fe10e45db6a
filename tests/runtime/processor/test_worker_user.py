"""Workers as another user of the machine: what they do, and what of their processor they can't."""

import base64
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from broker import Broker
from command import one_line, run
from forked import PROGRAM
from kafka_records import produce
from neighbour import NEIGHBOUR, needs_worker_user, neighbours_program
from processes import is_running, java_children
from replica import Replica, frozen, lines, replica, set_spec, wait_until, write_function
from spark import QUICK, use_spark

USER = ("--worker-user", NEIGHBOUR)
# As root is in most containers.
_KEPT = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service"
BOUNDED = ("setpriv", f"--bounding-set={_KEPT}", "--inh-caps=-all")
# Tried from inside a handler, whose folder says where secrets are.
ATTACKS = """
    import ctypes, errno, json, resource, socket, subprocess
    PROCESSOR = os.getppid()
    LIBC = ctypes.CDLL(None, use_errno=True)

    def call(name, *arguments):
        if getattr(LIBC, name)(*arguments) == -1:
            raise OSError(ctypes.get_errno(), name)

    def write_to(path):
        with open(path, "wb", buffering=0) as file:
            file.write(b"0")

    def servers_beside():
        paths = (line.split()[-1] for line in open("/proc/net/unix") if "headrace" in line)
        return sorted({path for path in paths if path.startswith("/")})

    def each_beside():
        children = pathlib.Path(f"/proc/{PROCESSOR}/task/{PROCESSOR}/children").read_text().split()
        return [PROCESSOR, *(int(pid) for pid in children if b"fence_main" in
                             pathlib.Path(f"/proc/{pid}/cmdline").read_bytes())]

    def attempts(secrets):
        yield from ((f"read {path}", lambda p=path: pathlib.Path(p).read_bytes()) for path in secrets)
        for pid in each_beside():
            yield f"signal {pid}", lambda p=pid: os.kill(p, 0)
            yield f"see what is open in {pid}", lambda p=pid: os.listdir(f"/proc/{p}/fd")
            for what in ("environ", "mem", "maps", "auxv", "syscall", "fdinfo/0"):
                yield f"read {what} of {pid}", lambda p=pid, w=what: open(f"/proc/{p}/{w}", "rb").read(1)
            for what in ("mem", "oom_score_adj", "clear_refs", "timerslack_ns"):
                yield f"write {what} of {pid}", lambda p=pid, w=what: write_to(f"/proc/{p}/{w}")
            for what in ("cwd", "exe", "root", "fd/1"):
                yield f"follow {what} of {pid}", lambda p=pid, w=what: os.readlink(f"/proc/{p}/{w}")
            yield f"trace {pid}", lambda p=pid: call("ptrace", 0x4206, p, 0, 0)
            yield f"take what is open in {pid}", lambda p=pid: call("syscall", 438, os.pidfd_open(p), 1, 0)
            yield f"slow {pid} down", lambda p=pid: os.setpriority(os.PRIO_PROCESS, p, 19)
            yield f"move {pid}", lambda p=pid: os.sched_setaffinity(p, {0})
            yield f"limit {pid}", lambda p=pid: resource.prlimit(p, resource.RLIMIT_NOFILE, (0, 0))
        for path in servers_beside():
            yield f"ask {path}", lambda p=path: socket.socket(socket.AF_UNIX).connect(p)
        lease = f"/proc/self/fd/{sys.argv[3]}"
        yield "write the lease", lambda: os.pwrite(os.open(lease, os.O_RDWR), bytes(16), 0)
        yield "type into a terminal", lambda: open("/dev/tty", "w")
        yield "end a stranger", lambda: os.kill(int(secrets[-1].split("/")[2]), 0)
        yield "become root", lambda: os.setuid(0)

    def handler(context, event):
        done = []
        for name, attempt in attempts(json.loads((FOLDER / 'secrets').read_text())):
            try:
                attempt()
            except OSError as error:
                if error.errno not in (errno.EPERM, errno.EACCES, errno.ENXIO):
                    done.append(f"{name}: {error}")
            else:
                done.append(name)
        status = pathlib.Path("/proc/self/status").read_text()
        about = {line.split(":")[0]: line.split()[1:] for line in status.splitlines()}
        write(json.dumps({
            "done": done,
            "beside": len(each_beside()),
            "ids": [os.getresuid(), os.getresgid(), os.getgroups()],
            "home": [os.environ.get(name) for name in ("HOME", "USER", "LOGNAME")],
            "gains": about["NoNewPrivs"],
            "capabilities": about["CapPrm"] + about["CapAmb"],
            "session": os.getsid(0) == os.getpid(),
        }))
"""
LEAVES = """
    import subprocess

    def handler(context, event):
        child = subprocess.Popen(["sleep", "600"], start_new_session=True)
        write(f"{os.getuid()} {os.getpid()} {child.pid}")
        time.sleep(600 if exists("stay") else 0)
"""
ASKS_SPARK = """
    def handler(context, event):
        spark = context.spark
        from pyspark.sql.functions import udf
        who = udf(lambda _: os.getuid(), "long")
        (row,) = spark.range(1).select(who("id").alias("uid")).collect()
        spark.range(3).write.mode("overwrite").parquet(str(FOLDER / "written"))
        write(f"{row.uid} {(FOLDER / 'written').stat().st_uid}")
"""
HARMLESS = "def handler(context, event): write(os.getuid())"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the neighbour may read and write."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-test-", dir="/tmp"))  # pytest's is closed
    (folder / "f").mkdir()
    for path in (folder, folder / "f"):
        path.chmod(0o777)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(folder / "tmp"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.full_but("2")
@needs_worker_user
@pytest.mark.parametrize("replicas", ["1", "2"])
def test_a_handler_is_the_user_and_gets_at_nothing_of_its_processor(
    broker: Broker, topic: str, place: Path, replicas: str
) -> None:
    function = write_function(place / "f", ATTACKS, broker.bootstrap, [topic], workers=1)
    secret = place / "f" / "password"
    secret.write_text("canary")
    secret.chmod(0o600)
    given = (*USER, "--replicas", replicas)
    with (
        subprocess.Popen(["sleep", "600"]) as stranger,
        ExitStack() as at_end,
        replica(function, *given, program=neighbours_program()) as running,
    ):
        at_end.callback(stranger.kill)
        running.wait_ready()
        (token,) = (place / "state" / "headrace").iterdir()
        closed = [str(secret), str(token), f"/proc/{stranger.pid}/environ"]
        (function / "secrets").write_text(json.dumps(closed))
        produce(broker, topic, 1)
        wait_until(lambda: lines(function), about=running)
        nobody = pwd.getpwnam(NEIGHBOUR)
        assert json.loads(lines(function)[0]) == {
            "done": [],
            "beside": 2,
            "ids": [[nobody.pw_uid] * 3, [nobody.pw_gid] * 3, os.getgrouplist(NEIGHBOUR, nobody.pw_gid)],
            "home": [nobody.pw_dir, NEIGHBOUR, NEIGHBOUR],
            "gains": ["1"],
            "capabilities": ["0" * 16] * 2,
            "session": True,
        }
        assert running.stop() == 0


@contextmanager
def staying(
    broker: Broker, topic: str, folder: Path, bounds: tuple[str, ...]
) -> Iterator[tuple[Replica, int, int]]:
    """A run whose worker stays in a record; the worker's process, and one that its handler leaves behind."""
    function = write_function(folder, LEAVES, broker.bootstrap, [topic], workers=1)
    (function / "stay").touch()
    with replica(function, *USER, program=(*bounds, *neighbours_program())) as running:
        running.wait_ready()
        produce(broker, topic, 1)
        wait_until(lambda: lines(function), about=running)
        _, worker, left = map(int, lines(function)[0].split())
        yield running, worker, left


@pytest.mark.full_but("root")
@needs_worker_user
@pytest.mark.parametrize("bounds", [(), BOUNDED], ids=["root", "root in a container"])
def test_a_killed_worker_is_replaced_and_what_handlers_leave_behind_ends(
    broker: Broker, topic: str, place: Path, bounds: tuple[str, ...]
) -> None:
    with staying(broker, topic, place / "f", bounds) as (running, first, left):
        function = place / "f"
        (function / "stay").unlink()
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: len(lines(function)) == 2, about=running)
        uid, second, left_too = map(int, lines(function)[1].split())
        assert uid == pwd.getpwnam(NEIGHBOUR).pw_uid
        assert second != first
        assert not is_running(left)  # ended before the record came again
        wait_until(lambda: running.committed()[0] == 1, about=running)
        assert running.stop() == 0
        assert not is_running(second)
        assert not is_running(left_too)


@pytest.mark.full_but("root")
@needs_worker_user
@pytest.mark.parametrize("bounds", [(), BOUNDED], ids=["root", "root in a container"])
def test_a_killed_processor_leaves_nothing(
    broker: Broker, topic: str, place: Path, bounds: tuple[str, ...]
) -> None:
    with staying(broker, topic, place / "f", bounds) as (running, worker, left):
        running.kill()
        wait_until(lambda: not is_running(worker) and not is_running(left))


@needs_worker_user
def test_code_in_the_file_is_the_users_to_read(broker: Broker, topic: str, place: Path) -> None:
    code = "import os\ndef handler(context, event): print('handled as', os.getuid(), __file__)\n"
    function = write_function(place / "f", HARMLESS, broker.bootstrap, [topic], workers=1)
    set_spec(function, build={"functionSourceCode": base64.b64encode(code.encode()).decode()})
    with replica(function, *USER, program=neighbours_program()) as running:
        produce(broker, topic, 1)
        running.logged(f"handled as {pwd.getpwnam(NEIGHBOUR).pw_uid}")
        (private,) = (place / "tmp").glob("headrace-code-*/given")
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        assert running.stop() == 0
        assert not private.parent.exists()


@pytest.mark.full
@needs_worker_user
@pytest.mark.spark
def test_spark_which_does_what_handlers_say_is_the_user_too(broker: Broker, topic: str, place: Path) -> None:
    function = write_function(place / "f", ASKS_SPARK, broker.bootstrap, [topic], workers=1)
    with replica(use_spark(function, QUICK), *USER, program=neighbours_program()) as running:
        produce(broker, topic, 1)
        wait_until(lambda: lines(function), about=running)
        uid = pwd.getpwnam(NEIGHBOUR).pw_uid
        assert lines(function) == [f"{uid} {uid}"]
        (java,) = java_children(running.process.pid)
        assert Path(f"/proc/{java}").stat().st_uid == uid
        # What we write is where that user can put no link.
        (folder,) = (place / "tmp").glob("headrace-spark-*")
        assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (0, 0o711)
        assert {path.name for path in folder.iterdir()} == {"given", "lock", "output"}
        java_fds = {str(fd.readlink()) for fd in Path(f"/proc/{java}/fd").iterdir()}
        assert str(folder / "output") in java_fds
        assert running.stop() == 0
        assert not is_running(java)
        assert not folder.exists()


@needs_worker_user
def test_a_frozen_processors_workers_end_with_their_lease(broker: Broker, topic: str, place: Path) -> None:
    function = write_function(place / "f", LEAVES, broker.bootstrap, [topic], workers=1)
    (function / "stay").touch()
    with replica(function, *USER, program=neighbours_program()) as running:
        running.wait_ready()
        produce(broker, topic, 1)
        wait_until(lambda: lines(function), about=running)
        _, worker, left = map(int, lines(function)[0].split())
        with frozen(running):
            wait_until(lambda: not is_running(worker) and not is_running(left))


@pytest.mark.full_but("f/function_code.py")
@needs_worker_user
@pytest.mark.parametrize("closed", ["f", "f/function_code.py"])
def test_a_function_that_the_user_cannot_read_is_one_line(place: Path, closed: str) -> None:
    function = write_function(place / "f", HARMLESS, "127.0.0.1:1", ["t"])
    (place / closed).chmod(0o600)
    said = one_line(run("run", str(function), *USER, program=neighbours_program()), 2)
    assert f"the user {NEIGHBOUR} of --worker-user can't read {place / closed}" in said


@needs_worker_user
def test_a_python_that_the_user_cannot_run_is_one_line(place: Path) -> None:
    function = write_function(place / "f", HARMLESS, "127.0.0.1:1", ["t"])
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    python = closed / "python"
    python.symlink_to(neighbours_program()[2])
    if subprocess.run([python, "-P", "-c", "import headrace"], check=False, cwd="/").returncode:
        pytest.skip("this Python doesn't find its environment by a link from elsewhere")
    program = (*neighbours_program()[:2], str(python), *neighbours_program()[3:])
    assert "Python and Headrace have to be where that user" in one_line(
        run("run", str(function), *USER, program=program), 2
    )


def test_who_is_not_there_is_one_line(tmp_path: Path) -> None:
    function = write_function(tmp_path / "f", HARMLESS, "127.0.0.1:1", ["t"])
    said = one_line(run("run", str(function), "--worker-user", "no-such-user"), 2)
    assert said.endswith("--worker-user: this machine has no user 'no-such-user'")
    program = ("env", "HEADRACE_WORKER_USER=no-such-user", *PROGRAM)
    assert one_line(run("run", str(function), program=program), 2) == said


@needs_worker_user
def test_root_is_no_other_user(place: Path) -> None:
    function = write_function(place / "f", HARMLESS, "127.0.0.1:1", ["t"])
    for name in ("root", ""):
        assert "--worker-user" in one_line(run("run", str(function), "--worker-user", name), 2)


@pytest.mark.full_but("limits0-only root can start processes of another")
@needs_worker_user
@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (("setpriv", f"--reuid={NEIGHBOUR}", "--clear-groups"), "only root can start processes of another"),
        (
            ("setpriv", "--bounding-set=-setuid,-kill", "--inh-caps=-setuid,-kill"),
            "lacks CAP_KILL, CAP_SETUID",
        ),
    ],
)
def test_who_may_not_change_users_is_told_so(place: Path, limits: tuple[str, ...], says: str) -> None:
    function = write_function(place / "f", HARMLESS, "127.0.0.1:1", ["t"])
    assert says in one_line(run("run", str(function), *USER, program=(*limits, *neighbours_program())), 2)
