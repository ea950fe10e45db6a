"""What a function.yaml may say of an http trigger, and what of it is refused."""

from pathlib import Path
from typing import Any

import pytest
from http_function import http_function, write_http_function

from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.errors import ConfigError
from headrace.runtime.settings.overrides import parse_overrides
from headrace.triggers.http.settings import HttpSettings
from headrace.triggers.http.target import Ingresses


def loaded(folder: Path, text: str) -> FunctionSpec:
    (folder / "function.yaml").write_text(f"metadata: {{name: f}}\nspec:\n  handler: m:h\n{text}")
    return load_function(folder)


def with_attributes(folder: Path, attributes: str, more: str = "") -> HttpSettings:
    text = f"  triggers:\n    web:\n      kind: http\n{more}      attributes: {attributes}\n"
    settings: HttpSettings = loaded(folder, text).triggers[0].settings
    return settings


def test_without_a_word_it_is_this_machines_port_8080(tmp_path: Path) -> None:
    settings = with_attributes(tmp_path, "{}")
    assert (settings.host, settings.port, settings.max_request_body_size) == ("127.0.0.1", 8080, 4 << 20)


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("':8081'", "0.0.0.0", 8081),
        ("127.0.0.1:90", "127.0.0.1", 90),
        ("''", "127.0.0.1", 8080),
    ],
)
def test_nuclios_url_says_where_it_listens(tmp_path: Path, url: str, host: str, port: int) -> None:
    settings = with_attributes(tmp_path, "{}", more=f"      url: {url}\n")
    assert (settings.host, settings.port) == (host, port)


def test_the_environment_may_say_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_HTTP_HOST", "0.0.0.0")
    assert with_attributes(tmp_path, "{}").host == "0.0.0.0"
    assert with_attributes(tmp_path, "{host: '::1'}").host == "::1"


@pytest.mark.parametrize(("variable", "names"), [("", ()), ("a.example, b", ("a.example", "b"))])
def test_a_variable_may_hold_the_names_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, names: tuple[str, ...]
) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", variable)
    assert with_attributes(tmp_path, "{allowedHosts: '${ALLOWED_HOSTS:-}'}").allowed_hosts == names


@pytest.mark.parametrize(
    ("attributes", "more", "problem"),
    [
        ("{port: 70000}", "", "function.yaml:7: spec.triggers.web.attributes.port: 70000"),
        ("{port: '80'}", "", "expected a whole number, without quotes"),
        ("{maxRequestBodySize: 99999999}", "", "maxRequestBodySize: 99999999 "),
        ("{ingresses: [1]}", "", "ingresses: the list is no mapping from names to mappings with paths"),
        ("{cors: {enabled: true, allowCredentials: true}}", "", "name the origins"),
        (
            "{cors: {exposeHeaders: ['a b']}}",
            "",
            "exposeHeaders: the list has 'a b', which is no name in HTTP",
        ),
        ('{cors: {allowMethods: ["GET\\r"]}}', "", "allowMethods: the list has"),
        ("{prot: 80}", "", "port"),
        ("{allowedHosts: ['http://a.example']}", "", "no name such as orders.example"),
        ("{allowedHosts: ['a.example:80']}", "", "without a port"),
        ("{}", "      batch: {mode: enable}\n", "batch.mode: enable is known, but not built"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, attributes: str, more: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        with_attributes(tmp_path, attributes, more)
    assert len(refused.value.problems) == 1
    assert problem in str(refused.value)


def test_what_has_no_effect_is_noticed(tmp_path: Path) -> None:
    write_http_function(tmp_path, "", attributes={"serviceType": "NodePort"}, explicitAckMode="enable")
    notices = load_function(tmp_path).notices
    assert any("serviceType" in notice for notice in notices)
    assert any("explicitAckMode: has no effect here" in notice for notice in notices)


def test_a_function_without_triggers_has_one(tmp_path: Path) -> None:
    for text in ("", "  triggers: {}\n"):
        function = loaded(tmp_path, text)
        (trigger,) = function.triggers
        assert (trigger.name, trigger.kind, trigger.num_workers) == ("default-http", "http", 1)
        assert any("gets one of kind http" in notice for notice in function.notices)


def test_what_is_set_of_the_default_one_counts(tmp_path: Path) -> None:
    loaded(tmp_path, "")
    overrides = parse_overrides(("triggers.default-http.attributes.port=0",), [tmp_path])
    (trigger,) = load_function(tmp_path, overrides=overrides).triggers
    assert (trigger.name, trigger.settings.port) == ("default-http", 0)


@pytest.mark.parametrize(
    "text",
    [
        "  disableDefaultHTTPTrigger: true\n",
        "  triggers: {web: {kind: http, disabled: true}}\n",
    ],
)
def test_a_function_that_wants_none_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="no trigger is enabled"):
        loaded(tmp_path, text)


@pytest.mark.parametrize(
    ("path", "is_covered"),
    [
        ("/orders", True),
        ("/orders/7", True),
        ("/ordersheet", False),
        ("/", False),
        ("/f-nuclio/latest/x", True),
    ],
)
def test_ingresses_cover_whole_parts_of_paths(path: str, is_covered: bool) -> None:
    paths = ("/orders/", "{{.Name}}-{{.Namespace}}/{{.Version}}")
    assert Ingresses(paths, "f", "nuclio").cover(path) is is_covered
    assert Ingresses(("/",), "f", "nuclio").cover(path)
    assert Ingresses((), "f", "nuclio").cover(path)


async def test_what_no_ingress_covers_is_404(tmp_path: Path) -> None:
    attributes: dict[str, Any] = {"ingresses": {"a": {"host": "x", "paths": ["/a"]}}}
    async with http_function(
        tmp_path, "def handler(c, event): return event.path", attributes=attributes
    ) as f:
        assert (await f.ask("/a/b")).text == "/a/b"
        assert (await f.ask("/b")).status == 404
        assert (await f.ask("/a/%2e%2e/b")).status == 404
        assert (await f.ask("/__internal/health")).status == 200
