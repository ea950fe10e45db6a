"""What handlers find of the environment, and that they can't read their processor's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from broker import Broker, embedded
from forked import PROGRAM
from kafka_records import produce
from processes import java_children
from replica import lines, replica, set_spec, wait_until, write_function
from spark import QUICK, use_spark

from headrace.runtime.embedded.subprocesses import run_program
from headrace.runtime.processes import FOR_TRACES, PASSED_ON, PASSED_TO_JAVA, picked
from headrace.runtime.users import ways_into_us

HANDLER = """
    def handler(context, event):
        found = [name for name in ("SECRET_KEY", "GIVEN", "AWS_REGION", "MINE") if name in os.environ]
        write(f"{' '.join(found)} {os.environ['MINE']}")
"""
ASKS_SPARK = """
    def handler(context, event):
        spark = context.spark
        from pyspark.sql.functions import udf
        names = ("SECRET_KEY", "AWS_REGION", "MINE")
        found = udf(lambda _: " ".join(name for name in names if name in os.environ))
        write(spark.range(1).select(found("id")).first()[0])
"""
PAGE = Path(__file__).parents[3] / "docs/operate/security.md"
# Runs as somebody who is not root, whose every process may read all of every other's.
SIBLINGS = """
import os, sys
from pathlib import Path
from headrace.runtime.processes import keep_to_itself
keep_to_itself()
if (child := os.fork()) == 0:
    for what in ("environ", "fd", "mem"):
        try:
            path = Path(f"/proc/{os.getppid()}/{what}")
            print(what, os.listdir(path) if what == "fd" else os.open(path, os.O_RDONLY))
        except PermissionError:
            print(what, "refused")
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
"""


def test_names_may_end_in_a_star() -> None:
    environment = {"AWS_A": "1", "AWS_B": "2", "AW": "3", "B": "4"}
    assert picked(environment, ["AWS_*", "B"]) == {"AWS_A": "1", "AWS_B": "2", "B": "4"}
    assert picked(environment, []) == {}


@pytest.mark.parametrize(
    "name", ["HEADRACE_PASSWORD", "HEADRACE_ADMIN_TOKEN", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "PATHS"]
)
def test_what_is_not_on_the_list_is_not_passed_on(name: str) -> None:
    assert picked({name: "x", "PATH": "/bin", "LC_ALL": "C"}, PASSED_ON) == {"PATH": "/bin", "LC_ALL": "C"}


def test_the_page_lists_what_is_passed_on() -> None:
    page, like_those = PAGE.read_text(), {"https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
    assert [name for name in {*PASSED_TO_JAVA, *FOR_TRACES} - like_those if f"`{name}`" not in page] == []


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_handler_finds_its_own_environment_and_what_it_is_given(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, replicas: int
) -> None:
    monkeypatch.setenv("SECRET_KEY", "x")
    monkeypatch.setenv("GIVEN", "x")
    monkeypatch.setenv("AWS_REGION", "x")
    monkeypatch.setenv("MINE", "the shell's")
    folder = write_function(tmp_path / "f", HANDLER, broker.bootstrap, [topic], workers=1)
    set_spec(folder, env=[{"name": "MINE", "value": "${MINE}, by the file"}])
    given = ("--pass-env", "GIVEN", "--pass-env", "AWS_*", "--pass-env", "MINE")
    with replica(folder, "--replicas", str(replicas), *given) as running:
        running.wait_ready()
        produce(broker, topic, 1)
        wait_until((folder / "log").exists, about=running)
        assert (folder / "log").read_text() == "GIVEN AWS_REGION MINE the shell's, by the file\n"


@pytest.mark.full
def test_a_handler_finds_the_number_of_its_replica(broker: Broker, topic: str, tmp_path: Path) -> None:
    handler = """
        def init_context(context):
            write(os.environ["HEADRACE_REPLICA"])

        def handler(context, event):
            pass
    """
    folder = write_function(tmp_path / "f", handler, broker.bootstrap, [topic], workers=1)
    with replica(folder, "--replicas", "2") as running:
        running.wait_ready()
        assert sorted(lines(folder)) == ["0", "1"]


@pytest.mark.processes
@pytest.mark.parametrize(
    "name", ["JAVA_TOOL_OPTIONS", "https_proxy", "SSL_CERT_FILE", "HADOOP_CONF_DIR", "TMPDIR"]
)
def test_what_prepares_a_server_finds_what_downloads_need_and_no_secrets(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "/tmp")
    monkeypatch.setenv("SECRET_KEY", "x")
    found = run_program(["/usr/bin/env"]).stdout
    assert f"{name}=/tmp\n" in found
    assert "SECRET_KEY" not in found


@pytest.mark.full
def test_an_embedded_kafka_finds_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "x")
    with embedded() as kafka:
        assert b"SECRET_KEY" not in Path(f"/proc/{kafka.pid}/environ").read_bytes()


@pytest.mark.full
@pytest.mark.spark
def test_spark_finds_what_handlers_do_and_no_secrets(
    broker: Broker, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "x")
    monkeypatch.setenv("AWS_REGION", "x")
    folder = write_function(tmp_path / "f", ASKS_SPARK, broker.bootstrap, [topic], workers=1)
    set_spec(use_spark(folder, QUICK), env=[{"name": "MINE", "value": "x"}])
    with replica(folder, "--pass-env", "AWS_*") as running:
        produce(broker, topic, 1)
        wait_until(lambda: lines(folder), about=running)
        assert lines(folder) == ["AWS_REGION MINE"]
        (java,) = java_children(running.process.pid)
        assert b"SECRET_KEY" not in Path(f"/proc/{java}/environ").read_bytes()


def test_another_process_of_the_same_user_cannot_look_into_a_processor() -> None:
    if os.getuid():
        command = [sys.executable, "-P", "-c", SIBLINGS]
    else:
        drop = "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        # The module is imported before: nobody may not get at these files.
        command = [sys.executable, "-P", "-c", f"import headrace.runtime.processes\n{drop}{SIBLINGS}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["environ refused", "fd refused", "mem refused"]


# Of the kernel's two ways into a process that keeps to itself: what a child of its user gets of it.
WAYS = """
import ctypes, os, sys
from headrace.runtime.processes import keep_to_itself
from headrace.runtime.users import ways_into_us
for change in (os.setgid, os.setuid):
    change(int(sys.argv[1]))
ways = ways_into_us()
keep_to_itself()
if (child := os.fork()) == 0:
    try:
        open(f"/proc/{os.getppid()}/environ", "rb").read(1)
        reads = True
    except PermissionError:
        reads = False
    traces = ctypes.CDLL(None).ptrace(0x4206, os.getppid(), 0, 0) == 0
    print(*ways, reads, traces, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
_ROOT_IN_A_CONTAINER = "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap"


needs_ways = pytest.mark.skipif(
    os.geteuid() != 0 or "CAP_SYS_PTRACE" not in ways_into_us(), reason="it needs root with CAP_SYS_PTRACE"
)


@needs_ways
@pytest.mark.parametrize(
    ("uid", "bounds", "says"),
    [
        (0, "+all", " ".join([*ways_into_us(), "True True"])),
        (0, _ROOT_IN_A_CONTAINER, "False False"),
        (0, f"{_ROOT_IN_A_CONTAINER},+sys_ptrace", "CAP_SYS_PTRACE True True"),
        (65534, "+all", "False False"),
    ],
    ids=["root", "root in a container", "with CAP_SYS_PTRACE", "another user"],
)
def test_by_which_capabilities_a_handler_looks_into_its_processor(uid: int, bounds: str, says: str) -> None:
    bounded = ["setpriv", f"--bounding-set={bounds}", "--inh-caps=-all"]
    tries = [*bounded, sys.executable, "-P", "-c", WAYS, str(uid)]
    assert subprocess.run(tries, capture_output=True, text=True, check=True).stdout.strip() == says


@needs_ways
@pytest.mark.parametrize(
    ("bounds", "secret", "is_told"),
    [
        ((), "hunter2", True),
        ((), "", False),
        (("setpriv", f"--bounding-set={_ROOT_IN_A_CONTAINER}", "--inh-caps=-all"), "hunter2", False),
    ],
    ids=["root with a secret", "root without one", "root in a container"],
)
def test_who_runs_handlers_that_can_read_its_secrets_is_told_once(
    tmp_path: Path, bounds: tuple[str, ...], secret: str, *, is_told: bool
) -> None:
    handler = "def handler(context, event): ..."
    sasl = {"enable": bool(secret), "user": "u", "password": secret}
    function = write_function(tmp_path / "f", handler, "127.0.0.1:1", ["t"], workers=1, sasl=sasl)
    with replica(function, program=(*bounds, *PROGRAM)) as running:
        running.logged("admin server at")
        told = [line for line in running.log.splitlines() if "handlers can read the secrets of f" in line]
        assert len(told) == is_told
        assert "hunter2" not in running.log
