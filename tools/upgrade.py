"""Renew all locks together, and print what has moved: Python packages, the Java as a wheel, jars, SBOM.

Packages move to the newest versions that setup.cfg allows, jars to what the declared versions bring now.
Read what has moved, then `make setup`, `make check`, `make audit` and `make test`.

usage: upgrade.py [PACKAGE...]: these alone; none given: all
"""

import argparse
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
_BILL = ROOT / "sbom.cdx.json"
_EXTRAS = ("dev", "embedded", "metrics", "spark", "sql", "tasks", "tracking")
# Of every Python from the oldest on, and of any machine.
_OPTIONS = ("--universal", "--python-version", "3.11", "--generate-hashes", "--no-header")
_PINNED = re.compile(r"^(?P<name>[a-z0-9-]+)(?:\[[^]]*\])?==(?P<version>[^ ;]+)")
_JAR = re.compile(r"^(?P<name>[^: ]+:[^: ]+):(?P<version>[^: ]+) (?P<digest>[0-9a-f]{64})$")
_HASH = re.compile(r"--hash=(\S+)")


def read_lock(text: str) -> dict[str, dict[str, set[str]]]:
    """Return the digests by name and version, of a lock of packages or of jars.

    A package may be there in several versions, each for other Pythons.
    """
    found: dict[str, dict[str, set[str]]] = defaultdict(dict)
    digests = set[str]()
    for line in text.splitlines():
        if line_of_jar := _JAR.match(line):
            found[line_of_jar["name"]][line_of_jar["version"]] = {line_of_jar["digest"]}
        elif pinned := _PINNED.match(line):
            digests = found[pinned["name"]].setdefault(pinned["version"], set())
        digests.update(_HASH.findall(line))
    return dict(found)


def moved(before: str, after: str) -> Iterator[str]:
    """Yield a line for each name of two texts of one lock whose versions, or whose digests, differ."""
    old, new = read_lock(before), read_lock(after)
    for name in sorted(old.keys() | new.keys()):
        was, now = old.get(name, {}), new.get(name, {})
        if was.keys() != now.keys():
            yield f"{name} {_versions(was)} -> {_versions(now)}"
        elif was != now:
            yield f"{name} {_versions(now)}: other files of the same version"


def _versions(found: Mapping[str, object]) -> str:
    return ", ".join(sorted(found)) or "(none)"


def read_locks() -> dict[Path, str]:
    """Return the text of each lock by its path."""
    paths = [*ROOT.glob("requirements*.lock"), *ROOT.glob("runtime/embedded/*/*.lock")]
    return {path: path.read_text() for path in sorted(paths)}


def compile_lock(name: str, wanted: tuple[str, ...], packages: list[str], given: str = "") -> None:
    """Write a lock of what is `wanted`; `given` are requirements for `-`.

    Of those `packages` (none: of all) the newest version that is allowed, of others the one that is locked.
    """
    moving = [f"--upgrade-package={it}" for it in packages] or ["--upgrade"]
    uv = str(Path(sys.executable).with_name("uv"))
    command = [uv, "pip", "compile", "--quiet", *wanted, *_OPTIONS, *moving, "-o", name]
    subprocess.run(command, cwd=ROOT, check=True, input=given, text=True)


def run_tool(path: str) -> str:
    """Run one of our tools, and return what it prints."""
    command = [sys.executable, "-P", path]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Renew, and print what has moved."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="*", metavar="PACKAGE")
    packages = parser.parse_args().packages
    before = {**read_locks(), _BILL: _BILL.read_text()}
    try:
        renew(packages)
    except (subprocess.CalledProcessError, OSError) as error:
        for path in read_locks().keys() - before.keys():
            path.unlink()
        for path, text in before.items():
            path.write_text(text)
        sys.exit(f"nothing is renewed, all locks are as they were: {error}")
    after = read_locks()
    for path in sorted(before.keys() - {_BILL} | after.keys()):
        lines = list(moved(before.get(path, ""), after.get(path, "")))
        what = f"{len(lines)} moved" if lines else "as it was"
        sys.stdout.write("".join(f"{line}\n" for line in (f"{path.relative_to(ROOT)}: {what}", *lines)))


def renew(packages: list[str]) -> None:
    """Write all locks and the SBOM anew. Raises CalledProcessError, OSError; some may be new then."""
    extras = (word for extra in _EXTRAS for word in ("--extra", extra))
    compile_lock("requirements.lock", ("setup.cfg", *extras), packages)
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    # By itself: `--extra java` of setup.cfg would bring all that Headrace needs.
    java = setup["options.extras_require"]["java"]
    compile_lock("requirements-java.lock", ("-", "--no-annotate"), packages, java)
    run_tool("tools/lock_jars.py")
    _BILL.write_text(run_tool("tools/sbom.py"))


if __name__ == "__main__":
    main()
