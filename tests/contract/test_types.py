"""mypy strict refuses a kind that misses a part of the contract."""

import os
import subprocess
import sys

import pytest
from root import ROOT

from headrace.runtime.processor.trigger_classes import contract

METHODS = ("delivery", "embedded", "run", "stop", "problems", "status")
HEAD = """
from headrace.triggers.base import Dispatch, Trigger
from headrace.runtime.config.trigger import TriggerSpec
from headrace.runtime.metrics.runtime_metrics import TriggerMetrics
from lines_trigger import LinesTrigger
"""
WHOLE = {
    "delivery": "delivery = LinesTrigger.delivery",
    "embedded": "embedded = LinesTrigger.embedded",
    "run": "async def run(self) -> None: ...",
    "stop": "async def stop(self, wait_seconds: float) -> None: ...",
    "problems": "def problems(self) -> list[str]: return []",
    "status": "status = LinesTrigger.status",
}
MADE = """
    def __init__(self, a: TriggerSpec, b: Dispatch, c: TriggerMetrics, d: str) -> None: ...
def made_{name}(a: TriggerSpec, b: Dispatch, c: TriggerMetrics) -> Trigger: return {name}(a, b, c, "")
"""


def a_kind(name: str, parts: dict[str, str]) -> str:
    body = "\n".join(f"    {text}" for text in parts.values())
    return f"class {name}(Trigger):\n{body}{MADE.format(name=name)}"


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of mypy, about a whole kind and about each that misses one part."""
    folder = tmp_path_factory.mktemp("kinds")
    kinds = [a_kind("Whole", WHOLE)]
    kinds += [a_kind(f"No_{gone}", {k: v for k, v in WHOLE.items() if k != gone}) for gone in WHOLE]
    (folder / "kinds_to_check.py").write_text(HEAD + "\n".join(kinds))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "setup.cfg")]
    environment = os.environ | {"MYPYPATH": f"{ROOT}:{ROOT / 'tests/contract'}"}
    files = [str(folder / "kinds_to_check.py")]
    shown = subprocess.run(
        [*command, *files], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    return shown.stdout + shown.stderr


def test_the_parts_are_those_that_the_runtime_asks_for() -> None:
    assert set(WHOLE) == set(contract()) == set(METHODS)


def test_a_whole_kind_is_accepted(complaints: str) -> None:
    assert '"Whole"' not in complaints
    assert "No_delivery" in complaints


@pytest.mark.parametrize("gone", METHODS)
def test_a_kind_without_a_part_of_the_contract_is_refused(complaints: str, gone: str) -> None:
    assert f'"No_{gone}"' in complaints
