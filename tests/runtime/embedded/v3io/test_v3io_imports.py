"""The v3io server is started, and not imported: a run that asks for none doesn't load it."""

import subprocess
import sys

import pytest

_SERVER = "headrace.runtime.embedded.v3io"


@pytest.mark.parametrize(
    ("modules", "loaded"),
    [
        ("headrace.runtime.processor.run, headrace.triggers.v3io.trigger", set()),
        ("headrace.runtime.cli.run, headrace.runtime.cli.v3io.commands", set()),
        (f"{_SERVER}.server", {_SERVER, f"{_SERVER}.server"}),
    ],
    ids=["the core", "its commands", "its starter"],
)
def test_nothing_that_starts_the_server_loads_it(modules: str, loaded: set[str]) -> None:
    script = f"import sys, {modules}; print(*(name for name in sys.modules if name.startswith({_SERVER!r})))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == loaded
