"""The folder of an embedded broker before its first start: formatted, with a certificate."""

import base64
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from headrace.runtime.embedded.kafka.jars import class_path
from headrace.runtime.embedded.kafka.process import BrokerJava
from headrace.runtime.embedded.kafka.properties import write_properties
from headrace.runtime.embedded.kafka.security import KEYSTORE, KEYSTORE_PASSWORD
from headrace.runtime.embedded.ports import HOST

# keytool by its class: small Java runtimes leave the program out
_KEYTOOL = ("-m", "java.base/sun.security.tools.keytool.Main")
_ARGUMENTS = "format.arguments"
# What the format tool of this Kafka writes of its features: the first snapshot of the metadata's log.
_CHECKPOINT = Path("__cluster_metadata-0", "00000000000000000000-0000000000.checkpoint")


def format_records(java: BrokerJava, settings: Mapping[str, str], scram_users: Sequence[str]) -> None:
    """Make `records`, a KRaft node's, where there is none. Renamed at the end: it is always complete."""
    records, partial = java.folder / "records", java.folder / "records.partial"
    if records.is_dir():
        return
    shutil.rmtree(partial, ignore_errors=True)
    template = kept_checkpoint(java.jars)
    # SCRAM users are written into the format itself: no copy of another folder's has these.
    if scram_users:
        _run_format_tool(java, partial, settings, scram_users)
    elif template.is_file():
        copy_format(template, partial)  # saves the 1 s of the tool
    else:
        _run_format_tool(java, partial, settings)
        _keep(partial / _CHECKPOINT, template)
    # A start that was killed while formatting leaves no `records`, and the next one formats again.
    partial.rename(records)


def kept_checkpoint(jars: Path) -> Path:
    """Return where what the format tool has written is kept, beside the jars of its Kafka."""
    return jars / "format.checkpoint"


def _run_format_tool(
    java: BrokerJava, folder: Path, settings: Mapping[str, str], scram_users: Sequence[str] = ()
) -> None:
    write_properties(java.folder / "format.properties", {**settings, "log.dirs": folder.name})
    arguments = java.folder / _ARGUMENTS
    arguments.touch(mode=0o600)  # what signs in, and everybody can read command lines
    arguments.write_text("".join(f"--add-scram\n{user}\n" for user in scram_users))
    named = [f"@{arguments.name}"] if scram_users else []
    tool = ("-cp", class_path(java.jars), "kafka.tools.StorageTool", "format")
    try:
        java.run_tool(*tool, "-t", _kafka_id(), "-c", "format.properties", *named)
    finally:
        arguments.unlink()


def copy_format(template: Path, folder: Path, node_id: str = "1", cluster_id: str = "") -> None:
    """Write what the format tool would: the features of this Kafka, and who this node is."""
    checkpoint = folder / _CHECKPOINT
    checkpoint.parent.mkdir(parents=True)
    shutil.copyfile(template, checkpoint)
    identity = {"version": "1", "node.id": node_id, "cluster.id": cluster_id or _kafka_id()}
    identity["directory.id"] = _kafka_id()
    write_properties(folder / "meta.properties", identity)


def _keep(source: Path, target: Path) -> None:
    """Copy into the cache, whole or not at all; a cache that cannot be written is no error."""
    partial = target.with_suffix(f".{os.getpid()}.partial")
    with suppress(OSError):
        shutil.copyfile(source, partial)
        partial.rename(target)


def _kafka_id() -> str:
    """Return a random id as Kafka writes them: 22 characters, the first of which isn't a dash."""
    # A dash in front would look like an option to the format tool.
    return "h" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]


def certificate(java: BrokerJava) -> str:
    """Return the TLS listener's certificate as PEM, made once per folder: clients may have kept it."""
    keystore = java.folder / KEYSTORE
    store = ("-keystore", KEYSTORE, "-storepass", KEYSTORE_PASSWORD, "-alias", "broker")
    if not keystore.exists():
        java.run_tool(
            *_KEYTOOL,
            "-genkeypair",
            *store,
            "-storetype",
            "PKCS12",
            "-keyalg",
            "EC",
            "-validity",
            "3650",
            "-dname",
            "CN=localhost",
            "-ext",
            f"SAN=dns:localhost,ip:{HOST}",
        )
        # keytool has made the file by the umask, and the broker's private key is in it.
        keystore.chmod(0o600)
    return java.run_tool(*_KEYTOOL, "-exportcert", "-rfc", *store)
