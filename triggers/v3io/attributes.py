"""Every attribute of a `v3ioStream` trigger: type, default, annotation and effect. Nuclio's names."""

import re
from dataclasses import replace
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le
from pydantic import AfterValidator, BeforeValidator

from headrace.runtime.config.shared_attributes import FAILED, OnFailureSettings
from headrace.runtime.settings.declare import Settings, section, setting
from headrace.runtime.settings.types import CHOICE, COUNT, Seconds, Text, WindowSize, spelled
from headrace.runtime.streams.settings import AckSemantics, AllocationMode, explicit_ack_semantics
from headrace.runtime.v3io.addresses import (
    V3IO_OPTION,
    V3IO_OVERRIDE_VARIABLE,
    V3IO_VARIABLE,
    checked_web_api,
)
from headrace.runtime.v3io.group_format import MAX_GROUP_CHARS, another_of_that_name

_PATH = re.compile(r"/*[^\s/@]+(?:/+[^\s/@]+)*/*")


def _path(text: str) -> str:
    if text and not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} is no path of a stream; expected one such as orders-dead-letters")
    return text


class V3ioFailureSettings(OnFailureSettings):
    """The section `onFailure`: Kafka's, with a stream in the place of a topic for dead letters."""

    dead_letter_topic: Annotated[Text, AfterValidator(_path)] = setting(
        "deadLetterTopic",
        "",
        effect="The stream, in the same container, that gets failed records when then is deadLetter; while it"
        " can't be written, their shards wait.",
    )


DEFAULT_READ_BATCH_SIZE = 64
_MAX_RECORDS = 10_000  # of one answer, by any setting; it has 10 MB at most
_PLACE = "comes with the other two of containerName, streamPath and consumerGroup, or all are in the url"


def _whole(value: object) -> object:
    """Return a whole float as an int: Nuclio's files may come by way of JSON, where every number is one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _or_default(size: int) -> int:
    return size or DEFAULT_READ_BATCH_SIZE


def _group(name: str) -> str:
    if len(name) > MAX_GROUP_CHARS or any(c.isspace() or c in "/@" for c in name):
        raise ValueError(f"{name!r} is no group; expected up to {MAX_GROUP_CHARS} characters without / and @")
    # Attributes' names can't have every character: two groups whose names differ may share an escaped one.
    if other := another_of_that_name(name):
        raise ValueError(f"{name!r} would keep its offsets where group {other!r} does; take another name")
    return name


def _container(name: str) -> str:
    name = name.strip("/")
    if "/" in name:
        raise ValueError(f"{name!r} is no container; what is below it belongs into streamPath")
    return name


def _web_api(text: str) -> str:
    return checked_web_api(text) if text else ""


Whole = Annotated[int, BeforeValidator(_whole), replace(COUNT, accepts=(int, float))]
Interval = Annotated[Seconds, Gt(0), Le(86400)]


class V3ioAttributes(Settings):
    """The attributes of one trigger, as its file has them."""

    web_api: Annotated[Text, AfterValidator(_web_api)] = setting(
        "webApi",
        "",
        environment=V3IO_OVERRIDE_VARIABLE,
        option=V3IO_OPTION,
        required=f"the web API's address, or the trigger's url, {V3IO_OPTION}, --embedded-v3io"
        f" or {V3IO_VARIABLE}",
        example="http://v3io-webapi:8081",
        effect="Where the stream is served; without a port it is 80's. Else the trigger's url says it, or the"
        f" variable {V3IO_VARIABLE}.",
    )
    container_name: Annotated[Text, AfterValidator(_container)] = setting(
        "containerName", "", example="bigdata", effect=f"Holds the stream; {_PLACE}."
    )
    stream_path: Text = setting(
        "streamPath", "", example="/orders", effect=f"The stream in it; {_PLACE}. Events have it as topic."
    )
    consumer_group: Annotated[Text, AfterValidator(_group)] = setting(
        "consumerGroup",
        "",
        example="orders_function",
        effect=f"The name that the replicas share; {_PLACE}. With others than letters, digits and _ in it,"
        " members of other makes can't commit under that name.",
    )
    seek_to: Annotated[Literal["latest", "earliest"], spelled(), CHOICE] = setting(
        "seekTo",
        "latest",
        effect="Of a shard without a commit: latest skips what is there, earliest handles all of it. A shard"
        " that has no record yet is read from its first one.",
    )
    read_batch_size: Annotated[Whole, Ge(0), Le(_MAX_RECORDS), AfterValidator(_or_default)] = setting(
        "readBatchSize",
        DEFAULT_READ_BATCH_SIZE,
        unit="records",
        effect="How many one request asks for. Too low spends a request on few, too high holds more in"
        " memory; 0 is the default.",
    )
    record_batch_size_chan: Annotated[Whole, Ge(0), Le(_MAX_RECORDS)] = setting(
        "recordBatchSizeChan",
        0,
        unit="reads",
        effect="Reads of a shard that may wait here beyond the four that always may; a kill repeats none of"
        " them.",
    )
    polling_interval_ms: Annotated[Whole, Gt(0), Le(86_400_000)] = setting(
        "pollingIntervalMs",
        250,
        unit="milliseconds",
        effect="Between two reads of a shard that had nothing more. Too low asks in vain, too high makes"
        " records wait.",
    )
    num_transport_workers: Annotated[Whole, Gt(0), Le(1000)] = setting(
        "numTransportWorkers", 8, unit="connections", effect="Too low makes reads of many shards wait."
    )
    session_timeout_seconds: Interval = setting(
        "sessionTimeout",
        10.0,
        unit="seconds",
        effect="Too low ends sessions on a short pause, too high leaves a dead replica's shards idle. All"
        " members of a group must have the same.",
    )
    heartbeat_interval_seconds: Interval = setting(
        "heartbeatInterval",
        3.0,
        unit="seconds",
        effect="Too low has members meet in the group's state, too high loses the session by one lost beat.",
    )
    sequence_number_commit_interval_seconds: Interval = setting(
        "sequenceNumberCommitInterval",
        1.0,
        unit="seconds",
        effect="Too low writes often, too high repeats more after a kill.",
    )
    sequence_number_shard_wait_interval_seconds: Interval = setting(
        "sequenceNumberShardWaitInterval",
        1.0,
        unit="seconds",
        effect="Between two looks at a shard that has no record yet.",
    )
    worker_allocation_mode: AllocationMode = setting(
        "workerAllocationMode",
        "pool",
        annotation="v3iostream-worker-allocation-mode",
        effect="pool: any free worker takes the next shard; static: each shard keeps its worker.",
    )
    ack_window_size: Annotated[WindowSize, Ge(0)] = setting(
        "ackWindowSize",
        0,
        old_annotation="custom.nuclio.io/v3iostream-window-size",
        unit="records",
        effect="The last so many handled records of a shard stay uncommitted: a new owner runs them again.",
    )
    explicit_ack_semantics: AckSemantics = explicit_ack_semantics()
    on_failure: V3ioFailureSettings = section(
        "onFailure",
        V3ioFailureSettings,
        effect=FAILED,
    )
    max_buffered_bytes: Annotated[Whole, Gt(0)] = setting(
        "maxBufferedBytes",
        64 * 1024 * 1024,
        unit="bytes",
        effect="What a replica holds of records that were read; too low hands out fewer at a time.",
    )
    log_level: Annotated[Whole, Ge(0)] = setting(
        "logLevel",
        0,
        annotation="v3iostream-log-level",
        in_examples=False,
        no_effect="--log-level says what is logged",
        effect="Of Nuclio's client.",
    )
