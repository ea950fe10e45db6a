"""A page of the documentation, done as it says: its files written, its commands run."""

import os
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from broker import Broker
from function_files import VALID, load_text
from pages import ROOT, Block, Mark, parts
from replica import Replica, wait_until

from headrace.runtime.config.function_reader import load_function
from headrace.testing import run_handler

_BEFORE_A_BLOCK = {"file", "below", "spec", "from", "not run"}
_DIAGRAMS = ("DESIGN.md", "docs/design/")
_PLACES = {"spec": ("spec",), "trigger": ("spec", "triggers", "t")}
_PLACES["attributes"] = (*_PLACES["trigger"], "attributes")


class PageSession:
    """One page in one folder. The functions that it runs use the test's broker."""

    def __init__(self, page: str, folder: Path, broker: Broker) -> None:
        self._page = page
        self._folder = folder
        self._broker = broker
        self._marks: dict[str, str] = {}
        self._names: dict[str, Any] = {}
        self._unused: set[str] = set()
        self._running: Replica | None = None
        (folder / "examples").symlink_to(ROOT / "examples")

    def follow(self, text: str) -> None:
        """All of it. AssertionError where something isn't as the page says, or where nothing would notice."""
        try:
            for part in parts(text):
                where = f"{self._page}:{part.line}"
                if isinstance(part, Mark):
                    self._mark(where, part)
                else:
                    self._block(where, part)
                    self._marks.clear()
            assert not self._unused, f"{self._page}: nothing uses {self._unused}"
        finally:
            self._stop()

    def _mark(self, where: str, mark: Mark) -> None:
        if mark.name in _BEFORE_A_BLOCK:
            assert mark.value, f"{where}: {mark.name} says nothing"
            self._marks[mark.name] = mark.value
            return
        match mark.name:
            case "try":
                self._unused.discard(self._names["__file__"])
                exec(compile(mark.value, where, "exec"), self._names)
            case "until":
                running = self._running
                assert running, f"{where}: nothing runs"
                wait_until(lambda: mark.value in running.log, about=running)
            case "stop":
                assert self._running, f"{where}: nothing runs"
                self._stop()
            case _:
                raise AssertionError(f"{where}: no such mark: {mark.name}")

    def _block(self, where: str, block: Block) -> None:
        if "not run" in self._marks:
            assert block.language != "sh" or block.text.count("\n") == 1, (
                f"{where}: a reason is for one command"
            )
            return
        if (source := self._marks.get("from")) is not None:
            assert block.text in (ROOT / source).read_text(), f"{where}: {source} has it differently"
            return
        match block.language:
            case "sh":
                for line in block.text.replace("\\\n", "").splitlines():
                    self._command(where, line)
            case "yaml" if "below" in self._marks:
                self._load_fragment(block.text)
            case "yaml" | "python" if "file" in self._marks:
                self._write(where, block)
            case "text" if self._page.startswith(_DIAGRAMS):
                pass
            case _:
                raise AssertionError(f"{where}: nothing runs this block, and no mark says why")

    def _write(self, where: str, block: Block) -> None:
        name = self._marks["file"]
        (self._folder / name).write_text(block.text)
        self._unused.add(name)
        if block.language == "python" and not name.startswith("test_"):
            self._names = {"__name__": Path(name).stem, "__file__": name}
            self._names |= {"run_handler": run_handler, "sqlite3": sqlite3}
            exec(compile(block.text, where, "exec"), self._names)

    def _load_fragment(self, text: str) -> None:
        """ConfigError where it isn't valid."""
        document = _merged(VALID, {"spec": yaml.safe_load(self._marks.get("spec", "{}"))})
        fragment = yaml.safe_load(text)
        for key in reversed(_PLACES[self._marks["below"]]):
            fragment = {key: fragment}
        load_text(self._folder, yaml.safe_dump(_merged(document, fragment)))
        (self._folder / "function.yaml").unlink()

    # ---- commands

    def _command(self, where: str, line: str) -> None:
        words = shlex.split(line, comments=True)
        if not words:
            return
        if words[:2] == ["headrace", "run"]:
            self._run(words[2:])
            return
        folder = self._folder
        if words[0] == "make":  # what it does has tests of its own
            line, folder = f"make --dry-run {shlex.join(words[1:])}", ROOT
        if words[:2] == ["headrace", "partition"]:
            self._wait_stuck(where, words[3])
        if "pytest" in words or words[:2] == ["headrace", "validate"]:
            self._unused = {name for name in self._unused if name.endswith(".yaml")}
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", self._here(line)],
            cwd=folder,
            env=self._env(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{where}: {line}\n{done.stdout}{done.stderr}"

    def _here(self, line: str) -> str:
        """With the addresses of what runs here."""
        line = line.replace("127.0.0.1:PORT", self._broker.bootstrap)
        return line.replace("http://127.0.0.1:8081", self._running.url) if self._running else line

    def _env(self) -> Mapping[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "HEADRACE_BROKERS": self._broker.bootstrap}
        return env | ({"HEADRACE_ADMIN": self._running.url} if self._running else {})

    def _run(self, words: list[str]) -> None:
        """`headrace run`, at the shared broker, until the next one or the page's end."""
        self._stop()
        self._unused.clear()
        places = [self._folder / word for word in words if (self._folder / word).exists()]
        others = [word for word in words if not (self._folder / word).exists()]
        arguments = [word for word in others if word != "--embedded-kafka"]
        for topic in {topic for place in places for topic in _topics(place)}:
            self._broker.create(topic)
        first, *more = map(str, places)
        log = self._folder / "replica.txt"
        log.unlink(missing_ok=True)
        arguments += [*more, "--brokers", self._broker.bootstrap]
        self._running = running = Replica(Path(first), log, *arguments)
        # What an earlier page has left may halt a partition at once, and then it is never ready.
        wait_until(lambda: running.get("/ready")[0] == 200 or _stuck(running), about=running)

    def _wait_stuck(self, where: str, partition: str) -> None:
        """Not for another one, which an earlier page may have left something to fail in."""
        running = self._running
        assert running, f"{where}: nothing runs"
        wait_until(lambda: partition in _stuck(running), about=running)

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            try:
                assert running.stop() == 0, running.log
            finally:
                running.kill()


def _stuck(running: Replica) -> list[str]:
    rows = (row for trigger in running.triggers() for row in trigger["partitions"])
    return [f"{row['topic']}/{row['partition']}" for row in rows if row["isStuck"]]


def _topics(place: Path) -> Iterator[str]:
    streams = (trigger for trigger in load_function(place).triggers if trigger.is_stream)
    for trigger in streams:
        yield from trigger.settings.topics
        if topic := trigger.settings.on_failure.dead_letter_topic:
            yield topic


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(under[key], over[key])
        for key in under.keys() & over.keys()
        if isinstance(over[key], dict)
    }
    return {**under, **over, **both}
