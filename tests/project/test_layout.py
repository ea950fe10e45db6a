"""The tree is what the architecture says, and what the packaging lists."""

import configparser
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("runtime", "triggers", "functions", "specs")


def tracked_files() -> list[str]:
    command = ["git", "ls-files", "-co", "--exclude-standard"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().splitlines()


@pytest.mark.parametrize("name", SOURCES)
def test_the_front_door_links_to_the_real_folders(name: str) -> None:
    link = ROOT / "headrace" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..") / name


def test_every_package_is_listed_once_and_mapped_to_its_folder() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    options = config["options"]
    found = {"headrace": "headrace"} | {
        f"headrace.{'.'.join(init.parent.relative_to(ROOT).parts)}": str(init.parent.relative_to(ROOT))
        for source in SOURCES
        for init in (ROOT / source).rglob("__init__.py")
    }
    assert options["packages"].split() == sorted(found)
    mapping = dict(line.split(" = ") for line in options["package_dir"].strip().splitlines())
    assert mapping == found


def test_designs_file_map_names_every_source_file_and_nothing_else() -> None:
    design = (ROOT / "DESIGN.md").read_text()
    file_map = design.split("## File map")[1].split("\n## ")[0]
    named = set(re.findall(r"`((?:headrace|runtime|triggers|functions|specs)/[^`]+\.(?:py|yaml))`", file_map))
    existing = {
        path
        for path in tracked_files()
        if path.split("/")[0] in {"headrace", *SOURCES}
        and path.endswith((".py", ".yaml"))
        and not path.endswith("__init__.py")
        and (ROOT / path).exists()
    }
    assert named == existing


def test_examples_stay_small_enough_to_copy() -> None:
    for example in (ROOT / "examples").iterdir():
        handlers = list(example.glob("*.py"))
        assert (example / "function.yaml").exists()
        assert len((example / "README.md").read_text().splitlines()) <= 15
        assert all(len(handler.read_text().splitlines()) <= 40 for handler in handlers)
