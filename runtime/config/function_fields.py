"""Fields of function.yaml outside its triggers. Names and groups are Nuclio's (1.14)."""

import base64
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt
from pydantic import AfterValidator

from headrace.runtime.config.output import ProduceTopics
from headrace.runtime.settings.declare import KeysLike, Settings, section, setting
from headrace.runtime.settings.names import NAME_RULE, is_name
from headrace.runtime.settings.types import (
    CHOICE,
    Anything,
    Count,
    Flag,
    MemoryBytes,
    Quantity,
    Seconds,
    Text,
)

ON_KUBERNETES = "a setting of the Kubernetes deployment, not of the process"
_FOR_KUBERNETES = "for Kubernetes, which schedules by it; the process doesn't"
_BY_OTHERS = "Nuclio's platform uses it, the function itself doesn't"
_IMAGE = "no image is built; install what the handler needs beside Headrace"
_WRITTEN_BY_KUBERNETES = "Kubernetes writes it, nobody sets it"

_HANDLER = re.compile(r"[\w-]+(\.[\w-]+)*:[^\W\d]\w*")
_RUNTIME = re.compile(r"python(:[23](\.\d+)*(-[\w.]+)?)?")  # an image's tag, such as 3.8-alpine
# Kubernetes' other resources: disk, huge pages, and those of vendors, such as nvidia.com/gpu.
_OTHER_RESOURCE = re.compile(r"ephemeral-storage|hugepages-.+|[^/]+/[^/]+")
LOG_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
"""Levels that an entry of loggerSinks may name, in Python's numbers."""
_THE_LOG = (None, "", "stdout", "stderr", "myStdoutLoggerSink")  # the last is that of Nuclio's own examples
_LEAST_MEMORY_BYTES = 64 * 1024 * 1024  # an interpreter, the SDK and a handler's first imports


def _keys(why: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), why)


def _module_and_function(text: str) -> str:
    # Nuclio takes the name of the file for that of the module.
    if not _HANDLER.fullmatch(text.replace(".py:", ":", 1)):
        raise ValueError("is no handler; expected module:function, such as main:handler")
    return text


def split_handler(handler: str) -> tuple[str, str]:
    """Return the module's name and the function's. The name may be its file's too: main.py:handler."""
    module, _, function = handler.partition(":")
    return module.removesuffix(".py"), function


def _a_name(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"is no name for a function; {NAME_RULE}")
    return text


def _python(text: str) -> str:
    if text and not _RUNTIME.fullmatch(text):
        raise ValueError("is not built in; Headrace runs Python 3 only, such as python:3.11")
    return text


def _enough_memory(size: int) -> int:
    if size < _LEAST_MEMORY_BYTES:
        raise ValueError(f"is {size} bytes; a worker needs at least 64Mi to run at all")
    return size


def _sinks(written: object) -> object:
    # A value that is no list is checked as one wrong entry, and so refused with the same words.
    for number, entry in enumerate(written if isinstance(written, list) else [None]):
        level = entry.get("level", "info") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(level, str) or level.lower() not in LOG_LEVELS:
            raise ValueError("expected a list of entries with level: debug, info, warn or error")
        if entry.keys() - {"level", "sink"}:
            raise ValueError(f"entry {number} has more than level and sink, which nothing here knows")
    return written


def other_sinks(written: Sequence[Mapping[str, Any]]) -> str:
    """Return the sinks that a run doesn't have: its only one is its log."""
    return ", ".join(sorted({str(it["sink"]) for it in written if it.get("sink") not in _THE_LOG}))


class MetadataFields(Settings):
    """Fields of `metadata`."""

    name: Annotated[Text, AfterValidator(_a_name)] = setting(
        "name",
        required="the function needs a name",
        effect="Names the function in logs and metrics. Small letters, digits and dashes, at most 63.",
    )
    namespace: Text = setting(
        "namespace", "nuclio", effect="Handlers have it in context.platform, metrics as a label."
    )
    labels: Anything = setting(
        "labels", {}, in_examples=False, effect="nuclio.io/project-name is a label of the metrics."
    )
    annotations: Anything = setting(
        "annotations", {}, in_examples=False, effect="nuclio.io/ keys set triggers."
    )

    ignored: ClassVar[Mapping[str, str]] = {
        **_keys(
            _WRITTEN_BY_KUBERNETES,
            "resourceVersion creationTimestamp generation uid managedFields ownerReferences"
            " finalizers selfLink",
        ),
    }


def _decoded(text: str) -> str:
    try:
        # Line breaks are allowed: `base64` prints lines of 76 characters.
        return base64.b64decode("".join(text.split()), validate=True).decode()
    except ValueError:  # a UnicodeDecodeError is one too
        raise ValueError("is no text in base64; expected what `base64 main.py` prints") from None


class BuildFields(Settings):
    """`spec.build`: but for the code, known by name only."""

    code: Annotated[Text, AfterValidator(_decoded)] = setting(
        "functionSourceCode",
        "",
        secret=True,
        in_examples=False,
        effect="The handler's module, in base64: it runs instead of a file beside this one.",
    )

    ignored: ClassVar[Mapping[str, str]] = _keys(
        _IMAGE,
        "path functionConfigPath tempDir registry baseImageRegistry image"
        " noBaseImagesPull noCache noCleanup baseImage commands directives scriptPaths addedPaths"
        " dependencies onbuildImage offline runtimeAttributes codeEntryType codeEntryAttributes"
        " buildTimeoutSeconds mode args flags builderServiceAccount timestamp"
        " outputType nuclioSourceDir nuclioSourceURL",
    )


class LimitFields(Settings):
    """Fields of `spec.resources.limits`."""

    memory_bytes: Annotated[MemoryBytes, AfterValidator(_enough_memory)] = setting(
        "memory",
        0,
        unit="bytes",
        absent="no limit",
        effect="Too low kills workers that only need more; without it one can take the whole machine."
        " Written as 512Mi or 1.5G.",
    )
    cpu: Quantity = setting("cpu", "", no_effect=_FOR_KUBERNETES, effect="None.")

    ignored: ClassVar[Mapping[str, str]] = KeysLike(_OTHER_RESOURCE, _FOR_KUBERNETES)


class RequestFields(Settings):
    """Fields of `spec.resources.requests`."""

    memory: Quantity = setting("memory", "", no_effect=_FOR_KUBERNETES, effect="None.")
    cpu: Quantity = setting("cpu", "", no_effect=_FOR_KUBERNETES, effect="None.")

    ignored: ClassVar[Mapping[str, str]] = KeysLike(_OTHER_RESOURCE, _FOR_KUBERNETES)


Replicas = Annotated[Count, Ge(0)]  # 0 is "not given", as in Nuclio
REPLICAS = ("replicas", "min_replicas", "max_replicas")
"""Fields about the number of replicas, which only some kinds of triggers go by."""


class ResourceFields(Settings):
    """Fields of `spec.resources`."""

    limits: LimitFields = section("limits", LimitFields, effect="What one worker may use.")
    requests: RequestFields = section("requests", RequestFields, effect="What a pod reserves.")

    ignored: ClassVar[Mapping[str, str]] = _keys(ON_KUBERNETES, "claims")


class SpecFields(Settings):
    """`spec`, its triggers, outputs and env still as written."""

    handler: Annotated[Text, AfterValidator(_module_and_function)] = setting(
        "handler",
        required="write handler: module:function, such as main:handler",
        example="main:handler",
        effect="The module, main for main.py beside this file, and the function in it that gets the events.",
    )
    runtime: Annotated[Text, AfterValidator(_python)] = setting(
        "runtime",
        "",
        example="python:3.11",
        effect="The language; the version that runs is Headrace's own.",
    )
    logger_sinks: Annotated[Anything, AfterValidator(_sinks)] = setting(
        "loggerSinks",
        [],
        in_examples=False,
        effect="The lowest `level` in it (debug, info, warn, error) is that of the handler's lines; without"
        " it --log-level counts. All go to the log of the run, whatever `sink` says.",
    )
    description: Text = setting(
        "description", "", in_examples=False, effect="Workers have it in NUCLIO_FUNCTION_DESCRIPTION."
    )
    version: Anything = setting(
        "version", None, in_examples=False, effect="Workers have it in NUCLIO_FUNCTION_VERSION."
    )
    disable: Flag = setting("disable", False, effect="true says that the function shall not run.")
    env: Anything = setting(
        "env",
        [],
        example=[{"name": "GREETING", "value": "hello"}],
        effect="Environment variables of the workers.",
    )
    triggers: Anything = setting("triggers", {}, effect="Where events come from.")
    outputs: Anything = setting(
        "outputs",
        {},
        in_examples=False,
        effect="Other clusters, by name, for `context.produce(..., output=NAME)`.",
    )
    produce_topics: ProduceTopics = setting(
        "produceTopics",
        (),
        absent="any topic",
        refuses_nothing=True,
        in_examples=False,
        effect="The only topics that messages of its handlers may go to, resultTopic's included: TOPIC, or"
        " OUTPUT/TOPIC for one of spec.outputs; [] is none. `context.produce` for another one raises.",
    )
    resources: ResourceFields = section("resources", ResourceFields, effect="What a worker may use.")
    event_timeout_seconds: Annotated[Seconds, Gt(0)] = setting(
        "eventTimeout",
        0.0,
        unit="seconds",
        absent="no limit",
        effect="Too low kills handlers that are only slow; without it a hung one holds its worker. A call"
        " that takes longer has failed.",
    )
    running_event_loop: Flag = setting(
        "runningEventLoop",
        True,
        in_examples=False,
        effect="Whether a sync handler finds a running event loop, as in Nuclio. false is for libraries that"
        " refuse one: Django's ORM, asgiref, anyio.run.",
    )
    spark: Anything = setting("spark", {}, refuses_nothing=True, effect="Gives the handler context.spark.")
    disable_default_http_trigger: Flag = setting(
        "disableDefaultHTTPTrigger",
        False,
        in_examples=False,
        effect="A function without triggers gets one of kind http, on port 8080, unless this is true.",
    )
    replicas: Replicas = setting(
        "replicas",
        0,
        absent="maxReplicas counts",
        in_examples=False,
        effect="How many replicas share a v3io stream, where --replicas doesn't say more. Too high leaves"
        " shards to replicas that never come, too low leaves replicas idle.",
    )
    min_replicas: Replicas = setting(
        "minReplicas", 0, in_examples=False, effect="For Kubernetes; a v3io stream wants it like maxReplicas."
    )
    max_replicas: Replicas = setting(
        "maxReplicas", 0, absent="1", in_examples=False, effect="Counts where there is no replicas."
    )
    build: Anything = setting("build", {}, in_examples=False, effect="How Nuclio builds an image.")

    ignored: ClassVar[Mapping[str, str]] = {
        **_keys(_IMAGE, "image imageHash runRegistry imagePullSecrets imagePullPolicy"),
        **_keys(
            ON_KUBERNETES,
            "targetCPU targetCpu httpPort serviceType"
            " securityContext serviceAccount scaleToZero devices affinity nodeSelector nodeName tolerations"
            " priorityClassName preemptionPolicy preemptionMode deploymentStrategy hostIPC"
            " customScalingMetricSpecs autoScaleMetrics sidecars initContainers volumes envFrom"
            " readinessTimeoutSeconds waitReadinessTimeoutBeforeFailure automountServiceAccountToken"
            " podSecurityContext hostNetwork dnsPolicy terminationGracePeriodSeconds",
        ),
        **_keys(
            _BY_OTHERS,
            "publish alias dataBindings platform runtimeAttributes disableSensitiveFieldsMasking dealerURI"
            " avatar",
        ),
    }


class DocumentFields(Settings):
    """Fields of the whole file."""

    api_version: Annotated[Literal["nuclio.io/v1", "nuclio.io/v1beta1"], CHOICE] = setting(
        "apiVersion", "nuclio.io/v1", effect="The form of the file."
    )
    kind: Annotated[Literal["NuclioFunction", "Function"], CHOICE] = setting(
        "kind", "NuclioFunction", effect="What the file describes."
    )
    metadata: MetadataFields = section("metadata", MetadataFields, effect="Name and annotations.")
    spec: SpecFields = section("spec", SpecFields, effect="What runs, and on which events.")

    ignored: ClassVar[Mapping[str, str]] = _keys(_BY_OTHERS, "status")
