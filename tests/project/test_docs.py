"""What the pages say is so: their commands run, their code works, their links lead somewhere."""

import json
import re
from pathlib import Path
from typing import cast

import click
import pytest
from broker import Broker
from page_session import PageSession
from pages import GENERATED, ROOT, Block, pages, parts, prose
from root import tracked_files

from headrace.runtime.cli.main import headrace
from headrace.runtime.errors import ConfigError
from headrace.runtime.partitions.status import PartitionStatus

LONGEST = {"README.md": 120, "CHANGELOG.md": 1000}
MOST_LINES = 150
LONG_TO_FOLLOW = {"dead-letters.md", "kafka.md", "running.md", "spark.md"}
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_KEY = re.compile(r"`([a-z]+(?:[A-Z][a-z]+)+)[`:]")
_COMMAND = re.compile(r"`headrace ([^`]+)`")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def followed(page: Path) -> object:
    """A page that is followed; where that takes long, not in each run."""
    return pytest.param(page, id=name(page), marks=pytest.mark.full if page.name in LONG_TO_FOLLOW else ())


@pytest.mark.parametrize("page", [followed(page) for page in pages() if list(parts(page.read_text()))])
def test_what_a_page_tells_to_do_can_be_done(
    page: Path, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    PageSession(name(page), tmp_path, broker).follow(page.read_text())


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```python\nhandler = print\n```", "nothing runs this block"),
        ("```yaml\nspec: {}\n```", "nothing runs this block"),
        ("```text\nhello\n```", "nothing runs this block"),
        ("```\nhello\n```", "nothing runs this block"),
        ("<!-- file: a.py -->\n```python\nhandler = print\n```", "nothing uses {'a.py'}"),
        ("<!-- file: a.py -->\n```python\nimport nothing_such\n```", "No module named 'nothing_such'"),
        ("<!-- from: examples/hello_kafka/hello.py -->\n```python\nhandler = 1\n```", "has it differently"),
        ("<!-- below: spec -->\n```yaml\neventTimout: 1s\n```", "eventTimout"),
        ("<!-- file: a.py -->\n```python\none = 1\n```\n<!-- try: assert one == 2, one -->", "1"),
        ("<!-- not run: -->\n\n    headrace version", "not run says nothing"),
        ("<!-- unless: so -->", "no such mark: unless"),
        ("<!-- until: hello -->", "nothing runs"),
        ("```sh\nheadrace version\n```", "No such command 'version'"),
        ("```sh\nmake nothing\n```", "No rule to make target"),
    ],
)
def test_what_does_not_work_is_found(text: str, found: str, tmp_path: Path) -> None:
    page = PageSession("docs/guide/page.md", tmp_path, Broker("127.0.0.1:1", "none"))
    with pytest.raises((AssertionError, ImportError, ConfigError), match=re.escape(found)):
        page.follow(f"\n{text}\n")


@pytest.mark.full
def test_a_partition_is_moved_once_it_has_halted_itself(broker: Broker, tmp_path: Path) -> None:
    fails = "--set triggers.orders.attributes.onFailure"
    halts = f"headrace run examples/dead_letters {fails}.then=halt {fails}.backoff=1s"
    bad = "echo 'three for Ada' | headrace kafka produce --topic orders --partition"
    moves = "headrace partition retry orders/{0}", "headrace partition skip orders/{0}"
    lines = [halts, f"{bad} 5", moves[0].format(5), f"{bad} 6", *(move.format(6) for move in moves)]
    page = "".join(f"    {line}\n" for line in lines)
    PageSession("docs/operate/page.md", tmp_path, broker).follow(f"# A page\n\n{page}")


@pytest.mark.parametrize("page", pages(), ids=name)
def test_a_page_is_short(page: Path) -> None:
    assert len(page.read_text().splitlines()) <= LONGEST.get(name(page), MOST_LINES)


@pytest.mark.parametrize("page", [ROOT / path for path in tracked_files() if path.endswith(".md")], ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text()):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if re.match(r"https?:", link):
            continue
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_command_that_prose_names_is_there(page: Path) -> None:
    for said in _COMMAND.findall(prose(page.read_text())):
        command: click.Command = headrace
        for word in said.split():
            if isinstance(command, click.Group) and word.islower() and not word.startswith("-"):
                found = [command.get_command(click.Context(command), each) for each in word.split("|")]
                assert all(found), said
                command = cast("click.Command", found[0])
            elif word.startswith("--"):
                options = {option for param in command.params for option in param.opts}
                assert word in options | {"--help", "--version"}, said


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_setting_and_key_that_prose_names_is_there(page: Path, spelled: str) -> None:
    assert [key for key in _KEY.findall(prose(page.read_text())) if f'"{key}"' not in spelled] == []


@pytest.fixture(scope="session")
def spelled() -> str:
    """All words of the schema and the sources, and the keys of a status row, which are made of its fields."""
    sources = (path for room in ("runtime", "triggers") for path in (ROOT / room).rglob("*.py"))
    row = PartitionStatus("t", 0, "active", False, 0, 0, 0, 0, 0, 1)
    said = (path.read_text() for path in (ROOT / "specs/function.schema.json", *sources))
    return "".join((*said, json.dumps(row.json())))


@pytest.mark.parametrize("page", pages(), ids=name)
def test_every_task_that_a_page_starts_is_kept(page: Path) -> None:
    for block in parts(page.read_text()):
        if isinstance(block, Block) and block.language == "python":
            assert not re.search(r"^ *(asyncio|loop)\.create_task\(", block.text, re.MULTILINE), block.line


def test_every_generated_page_is_there() -> None:
    assert all((ROOT / page).exists() for page in GENERATED)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
