"""spec.spark: what it may say, in which words it is refused, and how a session is addressed."""

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from function_files import load_changed, problems_of
from spark import spark_function

from headrace.runtime.config.spark import SparkSpec
from headrace.runtime.config.trigger import CommandSettings
from headrace.runtime.embedded.java import Java
from headrace.runtime.embedded.spark.command import ServerFiles
from headrace.runtime.embedded.spark.installed import check_spark_installed
from headrace.runtime.embedded.spark.sharing import SharedSpark
from headrace.runtime.errors import UsageError
from headrace.runtime.processor.loading import load_functions
from headrace.runtime.spark.link import Endpoint, SharedToken, SparkLink


def problems_with(folder: Path, spark: object) -> str:
    return problems_of(folder, lambda d: d["spec"].update(spark=spark))


def test_without_the_key_there_is_no_spark_and_an_empty_one_is_the_default(tmp_path: Path) -> None:
    assert load_changed(tmp_path, lambda _: None).spark is None
    assert spark_function(tmp_path, {}).spark == SparkSpec(master="local[*]")


def test_workers_with_spark_are_in_utc_unless_the_function_says_otherwise(tmp_path: Path) -> None:
    assert "TZ" not in load_changed(tmp_path, lambda _: None).worker_env
    function = spark_function(tmp_path, {})
    assert function.worker_env["TZ"] == "UTC"
    assert replace(function, env={"TZ": "Asia/Tokyo"}).worker_env["TZ"] == "Asia/Tokyo"
    assert function.with_env({"TZ": "Asia/Tokyo"}).worker_env["TZ"] == "Asia/Tokyo"  # --pass-env TZ


@pytest.mark.parametrize(
    ("master", "env", "is_ours"),
    [("local[*]", {}, True), ("local[*]", {"TZ": "Asia/Tokyo"}, False), ("spark://h:7077", {}, False)],
)
def test_python_of_an_embedded_spark_is_in_utc_unless_a_function_says_otherwise(
    tmp_path: Path, master: str, env: dict[str, str], is_ours: bool
) -> None:
    shared = SharedSpark("f", SparkSpec(master=master), (), env)
    files = ServerFiles(Java(Path("/java"), 17, "17", "PATH"), tmp_path, (), tmp_path, shared)
    assert ("spark.python.daemon.module" in files.properties(1)) is is_ours


def test_a_server_of_our_own_takes_a_master_settings_and_packages(tmp_path: Path) -> None:
    written = {"master": "spark://h:7077", "conf": {"spark.x": "1"}, "packages": ["a.b:c_2.13:1.0"]}
    spec = spark_function(tmp_path, written).spark
    assert spec == SparkSpec(master="spark://h:7077", conf={"spark.x": "1"}, packages=("a.b:c_2.13:1.0",))
    assert not spec.is_local


def test_a_remote_server_takes_a_token_that_nothing_shows(tmp_path: Path) -> None:
    written = {"remote": "sc://h:15002/;use_ssl=true;x-key=hunter2", "token": "hunter2"}
    function = spark_function(tmp_path, written)
    assert function.spark is not None
    assert function.spark.token == "hunter2"
    assert "hunter2" not in repr(function)


@pytest.mark.parametrize(
    ("spark", "says"),
    [
        (None, "spec.spark: nothing is written; expected a value, or no such key"),
        ("yes", "spec.spark: this is no mapping; expected keys with values below it"),
        ({"mastr": "yarn"}, "spec.spark.mastr: unknown key; the nearest known key is master"),
        ({"master": "locl"}, "spec.spark.master: 'locl' is no Spark master; expected local[*], spark://h"),
        ({"remote": "sc://h", "master": "yarn"}, "goes with a server that Headrace starts, not with remote"),
        (
            {"remote": "sc://h", "packages": ["a:b:1"]},
            "spec.spark.packages: goes with a server that Headrace",
        ),
        ({"remote": "h:15002"}, "spec.spark.remote: is no address of a Spark Connect server; expected sc://"),
        ({"remote": "sc://h:x"}, "is no address of a Spark Connect server"),
        ({"remote": "sc://h/;a"}, "spec.spark.remote: has a parameter that is not key=value"),
        ({"remote": "sc://h/;session_id=1"}, "names a session; every worker gets its own"),
        ({"token": "x"}, "spec.spark.token: is for a remote server; write remote too, or remove it"),
        ({"conf": ["a"]}, "spec.spark.conf: expected a mapping from Spark's keys to strings"),
        (
            {"conf": {"spark.cores.max": 2}},
            "spec.spark.conf.spark.cores.max: expected a string; write number",
        ),
        ({"conf": {"cores": "2"}}, "spec.spark.conf.cores: is no key of Spark; they begin with spark."),
        ({"conf": {"spark.master": "yarn"}}, "is not for you to set: write spec.spark.master"),
        (
            {"packages": ["a:b"]},
            "spec.spark.packages: the list has 'a:b', which isn't group:artifact:version",
        ),
    ],
)
def test_each_mistake_is_one_line(tmp_path: Path, spark: Any, says: str) -> None:
    text = problems_with(tmp_path, spark)
    assert says in text
    assert "\n" not in text


def test_a_token_in_the_address_is_refused_and_not_shown(tmp_path: Path) -> None:
    text = problems_with(tmp_path, {"remote": "sc://h/;token=hunter2"})
    assert "spec.spark.remote: holds a token; write that as spec.spark.token, which is never shown" in text
    assert "hunter2" not in text


def test_a_session_is_addressed_by_user_and_token_whatever_the_token_holds() -> None:
    url = SparkLink("sc://h:7/;use_ssl=true", "a;b=c%").session_url
    assert Endpoint.parse(url) == Endpoint(
        "h", 7, {"use_ssl": "true", "user_id": "headrace", "token": "a;b=c%"}
    )
    assert Endpoint.parse(SparkLink("sc://h/;user_id=me", "").session_url) == Endpoint(
        "h", 15002, {"user_id": "me"}
    )


def test_a_replica_finds_the_server_in_its_environment_and_its_handlers_do_not() -> None:
    token = SharedToken.create()
    given = SparkLink("sc://localhost:7", "", shared=token).environment()
    env = {"PATH": "/bin", **given}
    link = SparkLink.from_environment(env)
    assert link is not None
    assert Endpoint.parse(link.session_url).params == {"user_id": "headrace"}
    token.publish("hunter2")
    assert Endpoint.parse(link.session_url).params == {"user_id": "headrace", "token": "hunter2"}
    assert "hunter2" not in f"{link!r}{link.lasting_url}{given}"
    assert env == {"PATH": "/bin"}
    assert SparkLink.from_environment(env) is None


def server_files(folder: Path, **spec: Any) -> ServerFiles:
    return ServerFiles(
        java=Java(Path("/java"), 17, "17", "PATH"),
        spark_jars=Path("/pyspark/jars"),
        more_jars=[Path("/more.jar")],
        folder=folder,
        shared=SharedSpark("f", SparkSpec(**spec), (folder,), {}),
    )


def test_the_functions_settings_win_and_memory_and_java_options_reach_java(tmp_path: Path) -> None:
    conf = {
        "spark.sql.shuffle.partitions": "9",
        "spark.driver.memory": "3g",
        "spark.driver.extraJavaOptions": "-Da='b c'",
    }
    files = server_files(tmp_path, conf=conf)
    assert files.properties(7)["spark.sql.shuffle.partitions"] == "9"
    assert files.properties(7)["spark.ui.enabled"] == "false"
    assert "-Xmx3g" in files.command()
    files.write(7)
    assert (tmp_path / "java-options").read_text() == '"-Da=b c"\n'
    assert f"@{tmp_path / 'java-options'}" in files.command()
    assert not any("b c" in word for word in files.command())
    assert "/pyspark/jars/*:/more.jar" in files.command()


def test_codecs_without_known_holes_come_before_those_of_pyspark(tmp_path: Path) -> None:
    lz4, zstd = Path("/at.yawk.lz4_lz4-java-1.jar"), Path("/com.github.luben_zstd-jni-1.jar")
    files = replace(server_files(tmp_path), more_jars=[lz4, zstd, Path("/more.jar")])
    (path,) = (word for word in files.command() if "/pyspark/jars/*" in word)
    assert path.startswith(f"{lz4}:{zstd}:/pyspark/jars/*:")
    assert path.endswith(":/more.jar")


def test_executors_elsewhere_get_the_jars_and_can_reach_the_driver(tmp_path: Path) -> None:
    properties = server_files(tmp_path, master="spark://h:7077", conf={"spark.jars": "/own.jar"}).properties(
        7
    )
    assert properties["spark.jars"] == "/more.jar,/own.jar"
    assert properties["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in properties


def test_settings_may_be_secrets_and_stand_in_no_command_line(tmp_path: Path) -> None:
    files = server_files(tmp_path, conf={"spark.hadoop.fs.s3a.secret.key": "hunter2"})
    files.write(7)
    assert "hunter2" not in " ".join(files.command())
    assert (tmp_path / "spark.properties").stat().st_mode & 0o077 == 0


def test_what_is_not_installed_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "grpcio":
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(UsageError, match=r"pip install 'headrace\[spark\]' \(missing: grpcio\)"):
        check_spark_installed()


@pytest.mark.parametrize(
    ("versions", "complaint"),
    [
        ({"pyspark": "3.5.9", "pandas": "2.3.3"}, "runs with PySpark 4.0 and newer, here is 3.5.9"),
        ({"pyspark": "4.3.0", "pandas": "2.1.4"}, "needs pandas 2.2 or newer, here is 2.1.4"),
    ],
)
def test_what_is_too_old_is_named(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], complaint: str
) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: versions.get(name) or real(name))
    with pytest.raises(UsageError, match=complaint):
        check_spark_installed()


def test_a_version_newer_than_all_that_was_tested_is_a_note_and_no_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = importlib.metadata.version
    newer = {"pyspark": "4.17.0"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: newer.get(name) or real(name))
    check_spark_installed()
    path = spark_function(tmp_path, {}).path
    (tmp_path / "main.py").write_text("def handler(context, event): pass\n")
    (loaded,) = load_functions([path], (), CommandSettings())
    assert not loaded.problems
    assert loaded.function is not None
    assert any(
        "spec.spark: runs with PySpark 4.17.0; it is tested with" in it for it in loaded.function.notices
    )


def test_the_client_alone_is_enough_where_the_server_runs_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "pyspark":
            raise importlib.metadata.PackageNotFoundError(name)
        return "4.2.0" if name == "pyspark-client" else real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["pandas>=2.2", 'twine; extra == "dev"'])
    check_spark_installed()
