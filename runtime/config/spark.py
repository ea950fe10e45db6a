"""`spec.spark`: whether a function has Spark, and whose."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, WithJsonSchema

from headrace.runtime.settings.declare import Settings, setting
from headrace.runtime.settings.findings import Findings, hidden_setting
from headrace.runtime.settings.reader import ReadContext, read_settings
from headrace.runtime.settings.types import Anything, Text, Texts
from headrace.runtime.settings.written_values import MissingVariableError
from headrace.runtime.settings.yaml_source import Path

_SPARK: Path = ("spec", "spark")
# Masters that Spark knows: threads here, its own cluster, Kubernetes, YARN.
_MASTER = re.compile(r"local(\[(\*|[1-9]\d*)(,\d+)?\])?|spark://[^/\s]+:\d+|k8s://\S+|yarn")
_PACKAGE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
_CONF_SCHEMA = {"type": "object", "additionalProperties": {"type": "string"}}
_OURS = {  # keys that would undo what Headrace decides, and what to write instead
    "spark.master": "write spec.spark.master",
    "spark.remote": "write spec.spark.remote",
    "spark.jars.packages": "write spec.spark.packages",
    "spark.submit.deployMode": "the server runs on this machine",
    "spark.connect.authenticate.token": "each start makes a token of its own",
    "spark.connect.grpc.binding.address": "the server listens on loopback only",
    "spark.connect.grpc.binding.port": "a free port is chosen",
}


def _a_master(text: str) -> str:
    if not _MASTER.fullmatch(text):
        raise ValueError("is no Spark master; expected local[*], spark://host:7077, k8s://... or yarn")
    return text


def _coordinates(packages: tuple[str, ...]) -> tuple[str, ...]:
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise ValueError(f"has {package!r}, which isn't group:artifact:version")
    return packages


class SparkFields(Settings):
    """Fields of `spec.spark`. Present and empty is enough."""

    master: Annotated[Text, AfterValidator(_a_master)] = setting(
        "master",
        "local[*]",
        effect="Where executors run: local[*] takes every core of this machine; spark://host:7077, k8s://...,"
        " yarn.",
    )
    conf: Annotated[Anything, WithJsonSchema(_CONF_SCHEMA)] = setting(
        "conf",
        {},
        effect="Spark's own settings, as strings. They beat ours; spark.driver.memory is 1g where nothing is"
        " said. With remote they set what a session may set.",
    )
    packages: Annotated[Texts, AfterValidator(_coordinates)] = setting(
        "packages",
        (),
        effect="Maven coordinates, group:artifact:version. The first start downloads them. The Kafka source"
        " is always there.",
    )
    remote: Text = setting(
        "remote",
        "",
        secret=True,  # its parameters may hold one
        effect="Instead of master and packages: a Spark Connect server that runs already, as"
        " sc://host:15002.",
    )
    token: Text = setting(
        "token",
        "",
        secret=True,
        environment="SPARK_CONNECT_AUTHENTICATE_TOKEN",
        effect="What remote asks for; any host but localhost then needs TLS. SPARK_CONNECT_AUTHENTICATE_TOKEN"
        " stands in for it.",
    )


@dataclass(frozen=True, slots=True)
class SparkSpec:
    """A function's Spark: the server at `remote`, or one of its own with executors at `master`."""

    remote: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    packages: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether its executors are threads of its server, on this machine."""
        return not self.remote and self.master.startswith("local")


def read_spark(written: object, environment: Mapping[str, str], findings: Findings) -> SparkSpec:
    """Read the mapping at spec.spark: defaults where a problem is added. conf and remote may hold secrets."""
    # Asked of what is written: to read it one has to know already.
    is_remote = isinstance(written, dict) and bool(written.get("remote"))
    # Only a remote server asks for a token: the variable means nothing to one of our own.
    context = ReadContext(findings.source, environment=environment if is_remote else {})
    read = read_settings(SparkFields, written, _SPARK, context)
    findings.add_messages_of(read)
    findings.add_settings_of(read)
    fields = read.values
    for path, message in (*_conf_faults(fields.conf, remote=is_remote), *_remote_faults(fields)):
        findings.problem((*_SPARK, *path), message)
    conf = _expanded(fields.conf, findings) if isinstance(fields.conf, dict) else {}
    # Any key of Spark may hold a password, and nobody can list which.
    places = ((*_SPARK, "conf", key) for key in conf)
    findings.settings.extend(hidden_setting(at, at, findings.source) for at in places)
    return SparkSpec(fields.remote, fields.token, fields.master, conf, fields.packages)


def _expanded(conf: Mapping[str, object], findings: Findings) -> dict[str, str]:
    texts = {}
    for key, value in conf.items():
        try:
            texts[key] = str(findings.source.expanded(value)[0])
        except MissingVariableError as missing:
            findings.problem((*_SPARK, "conf", key), str(missing))
    return texts


def _conf_faults(conf: object, *, remote: bool) -> Iterator[tuple[Path, str]]:
    if not isinstance(conf, dict):
        yield ("conf",), "expected a mapping from Spark's keys to strings"
        return
    for key, value in conf.items():
        at: Path = ("conf", key)
        if not key.startswith("spark."):
            yield at, "is no key of Spark; they begin with spark."
        elif key in _OURS and not remote:  # a remote server decides itself what a session may set
            yield at, f"is not for you to set: {_OURS[key]}"
        elif not isinstance(value, str):
            yield at, "expected a string; write numbers and true in quotes"


def _remote_faults(fields: SparkFields) -> Iterator[tuple[Path, str]]:
    if not fields.remote:
        if fields.token:  # a server of ours makes its own token at each start
            yield ("token",), "is for a remote server; write remote too, or remove it"
        return
    for key in ("master", "packages"):
        if key in fields.model_fields_set:
            yield (key,), f"goes with a server that Headrace starts, not with remote; remove {key} or remote"
    if fault := _url_fault(fields.remote):
        yield ("remote",), fault


def _url_fault(url: str) -> str:
    try:
        parts = urlsplit(url)
        is_whole = parts.scheme == "sc" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none
        is_whole = False
    # sc://host:port/;key=value;key=value is Spark's own form.
    path, *params = urlsplit(url).path.split(";") if is_whole else [""]
    if not is_whole or path not in {"", "/"} or parts.query or parts.fragment or parts.username:
        return "is no address of a Spark Connect server; expected sc://host:15002"
    if not all(re.fullmatch(r"[^=]+=[^=]*", param) for param in filter(None, params)):
        return "has a parameter that is not key=value; expected sc://host:15002/;key=value"
    names = {param.partition("=")[0] for param in params}
    if "token" in names:  # an address is shown in messages and logs
        return "holds a token; write that as spec.spark.token, which is never shown"
    if "session_id" in names:
        return "names a session; every worker gets its own, remove session_id"
    return ""
