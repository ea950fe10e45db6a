"""The attributes of an http trigger: Nuclio's, and `host`."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le
from pydantic import AfterValidator

from headrace.runtime.config.shared_attributes import CONCURRENCY_RULES, MaxConcurrency, max_concurrency
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.settings.declare import Rule, Settings, section, setting
from headrace.runtime.settings.types import Anything, Count, Flag, Text, Texts

HOST_VARIABLE = "HEADRACE_HTTP_HOST"
_DEFAULT_BODY_BYTES = 4 << 20
_DEFAULT_HEAD_BYTES = 16 << 10
_MOST_BODY_BYTES = 32 << 20  # a worker's answer may be twice as long
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A name in HTTP: of a header, or a method (RFC 9110, 5.6.2)."""
_KUBERNETES = "a setting of the Kubernetes service or ingress, not of the process"


def _or_default(default: int) -> AfterValidator:
    return AfterValidator(lambda size: size or default)


def _ingresses(written: object) -> object:
    # Nuclio's ingresses have more fields, which are the ingress controller's: only paths are looked at.
    for ingress in written.values() if isinstance(written, dict) else [None]:
        paths = ingress.get("paths", []) if isinstance(ingress, dict) else None
        if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
            raise ValueError("is no mapping from names to mappings with paths, a list of strings")
    return written


def _names(hosts: tuple[str, ...]) -> tuple[str, ...]:
    for host in hosts:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", host):
            raise ValueError(
                f"has {host!r}, which is no name such as orders.example: without a port, without http://"
            )
    return hosts


def _tokens(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not TOKEN.fullmatch(name):
            raise ValueError(f"has {name!r:.100}, which is no name in HTTP")
    return names


_Names = Annotated[Texts, AfterValidator(_tokens)]


class CorsSettings(Settings):
    """`cors`: what pages of other origins may do."""

    enabled: Flag = setting(
        "enabled",
        False,
        effect="Without it no page of another origin can read an answer; with it, those of other origins than"
        " allowOrigins are refused.",
    )
    allow_origins: Texts = setting(
        "allowOrigins", ("*",), effect="* lets every page read what the function answers."
    )
    allow_methods: _Names = setting(
        "allowMethods",
        ("HEAD", "GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"),
        effect="Pages can't use others, but for simple requests, which browsers don't ask about.",
    )
    allow_headers: _Names = setting(
        "allowHeaders",
        ("Accept", "Content-Length", "Content-Type", "Authorization", "X-nuclio-log-level"),
        effect="Pages can't send others.",
    )
    expose_headers: _Names = setting(
        "exposeHeaders", (), effect="Pages can't read others of the answer, but for a few."
    )
    allow_credentials: Flag = setting(
        "allowCredentials",
        False,
        effect="true lets pages send cookies, in the name of whoever looks at them.",
    )
    preflight_request_method: Text = setting(
        "preflightRequestMethod", "OPTIONS", in_examples=False, effect="The method that asks beforehand."
    )
    preflight_max_age_seconds: Annotated[Count, Ge(-1)] = setting(
        "preflightMaxAgeSeconds",
        5,
        unit="seconds",
        effect="How long browsers keep what they were told; -1: not at all.",
    )


def _no_credentials_for_all(settings: "HttpSettings", _: TriggerFields) -> str:
    """must not be true where allowOrigins has *."""
    cors = settings.cors
    if not (cors.enabled and cors.allow_credentials and "*" in cors.allow_origins):
        return ""
    return "lets every page in the world act in its reader's name, with allowOrigins *; name the origins"


class HttpSettings(Settings):
    """The settings of one http trigger."""

    port: Annotated[Count, Ge(0), Le(65535)] = setting(
        "port", 8080, effect="Two functions on one port: the second one does not start. 0: a free one."
    )
    host: Text = setting(
        "host",
        "127.0.0.1",
        environment=HOST_VARIABLE,
        effect="127.0.0.1 is this machine alone; with 0.0.0.0, or :: for IPv6, whoever can reach it may call"
        " the function.",
    )
    ingresses: Annotated[Anything, AfterValidator(_ingresses)] = setting(
        "ingresses",
        {},
        example={"http": {"paths": ["/orders"]}},
        effect="Where one has `paths`, requests for paths that begin otherwise are answered with 404; hosts"
        " are the ingress controller's.",
    )
    cors: CorsSettings = section("cors", CorsSettings, effect="Cross-origin requests of browsers.")
    cross_origin_protection: Flag = setting(
        "crossOriginProtection",
        False,
        effect="Without it any page that is open in a browser which reaches the function may call it; with it"
        " such requests are refused with 403, but for links that are followed, and for pages that cors"
        " allows.",
    )
    allowed_hosts: Annotated[Texts, AfterValidator(_names)] = setting(
        "allowedHosts",
        (),
        example=["orders.example"],
        effect="Requests by other names, but for localhost and addresses, are refused with 403. With"
        " crossOriginProtection, a function at 127.0.0.1 needs here what a proxy before it is called.",
    )
    max_request_body_size: Annotated[Count, Ge(0), Le(_MOST_BODY_BYTES), _or_default(_DEFAULT_BODY_BYTES)] = (
        setting(
            "maxRequestBodySize",
            _DEFAULT_BODY_BYTES,
            unit="bytes",
            effect="Larger requests are answered with 413; too high lets few requests fill the memory.",
        )
    )
    read_buffer_size: Annotated[Count, Ge(0), Le(1 << 20), _or_default(_DEFAULT_HEAD_BYTES)] = setting(
        "readBufferSize",
        _DEFAULT_HEAD_BYTES,
        unit="bytes",
        effect="A longer head, request line and headers together, is answered with 431.",
    )

    max_concurrency: MaxConcurrency = max_concurrency()

    rules: ClassVar[tuple[Rule, ...]] = (
        *CONCURRENCY_RULES,
        Rule(
            "cors.allow_credentials",
            ("cors.enabled", "cors.allow_credentials", "cors.allow_origins"),
            _no_credentials_for_all,
        ),
    )
    ignored: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("serviceType", "disablePortPublishing"), _KUBERNETES),
        "reduceMemoryUsage": "a setting of Nuclio's own HTTP server",
    }

    @classmethod
    def fallbacks(cls, trigger: Any) -> Mapping[str, object]:
        """`url: ":8080"` is Nuclio's way to say where it listens; without a host everywhere."""
        # Other urls say where others reach the function, and nothing of where it listens.
        host, colon, port = trigger.url.rpartition(":")
        if not (colon and port.isdigit()):
            return {}
        return {"port": int(port), "host": host or "0.0.0.0"}  # noqa: S104  # as it is written

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of all ingresses, as written."""
        return tuple(path for ingress in self.ingresses.values() for path in ingress.get("paths", ()))
