"""Print a picture of the layers, SVG, drawn from the imports: `make generate` writes docs/design/layers.svg.

A row is a layer of setup.cfg's contract, a box one of its packages with all of its subpackages. An arrow goes
from a package to one that it imports, unless a longer way leads there too: A to C is left out beside A to B
and B to C.
"""

import sys
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
_WIDTH, _ROW, _BOX_HEIGHT, _LEFT = 1100.0, 88.0, 44.0, 30.0
_STYLE = (
    "text{font:13px sans-serif;fill:#1c1e21}"
    ".layer{fill:#f4f6f8}.box{fill:#fff;stroke:#4a6fa5;stroke-width:1.3}"
    "path{fill:none;stroke:#8a97a8;stroke-width:1.2;marker-end:url(#tip)}"
)


def layers() -> list[list[str]]:
    """Rows from the top, of packages below `headrace.`, as setup.cfg has them; single files are left out."""
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    rows = config["importlinter:contract:layers"]["layers"].strip().splitlines()
    packages = [[name for name in row.split(" : ") if is_package(name)] for row in rows]
    return [row for row in packages if row]


def is_package(name: str) -> bool:
    return (ROOT / name.replace(".", "/") / "__init__.py").exists()


def imports_between(packages: list[str]) -> dict[str, set[str]]:
    """Each package with those that it imports, subpackages counted as a part of it."""
    graph = grimp.build_graph("headrace")
    found: dict[str, set[str]] = {package: set() for package in packages}
    for package in packages:
        modules = {f"headrace.{package}", *graph.find_descendants(f"headrace.{package}")}
        imported = {name for module in modules for name in graph.find_modules_directly_imported_by(module)}
        for other in packages:
            inside = f"headrace.{other}"
            if other != package and any(name == inside or name.startswith(f"{inside}.") for name in imported):
                found[package].add(other)
    return found


def without_shortcuts(imports: dict[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Pairs that no longer way joins: the transitive reduction."""

    def reached(package: str) -> set[str]:
        return imports[package].union(*(reached(below) for below in imports[package]))

    for package, below in imports.items():
        for other in sorted(below):
            if not any(other in reached(between) for between in below - {other}):
                yield package, other


def picture() -> str:
    rows = layers()
    spots: dict[str, tuple[float, float, float]] = {}  # left, top, width
    parts = []
    for number, row in enumerate(rows):
        top = 20 + number * _ROW
        parts.append(
            f'<rect class="layer" x="8" y="{top - 10}" width="{_WIDTH - 16}" height="{_BOX_HEIGHT + 20}"/>'
        )
        room = (_WIDTH - 2 * _LEFT) / len(row)
        for place, package in enumerate(row):
            width = min(room - 12, 210)
            spots[package] = (_LEFT + place * room + (room - width) / 2, top, width)
    for package, other in without_shortcuts(imports_between(list(spots))):
        left, top, width = spots[package]
        left_below, top_below, width_below = spots[other]
        start, end = left + width / 2, left_below + width_below / 2
        bottom = top + _BOX_HEIGHT
        middle = (bottom + top_below) / 2
        curve = f"C{start:.0f},{middle} {end:.0f},{middle} {end:.0f},{top_below - 6}"
        parts.append(f'<path d="M{start:.0f},{bottom} {curve}"/>')
    for package, (left, top, width) in spots.items():
        name = package.removeprefix("runtime.")
        parts.append(
            f'<rect class="box" x="{left:.0f}" y="{top}" width="{width:.0f}" height="{_BOX_HEIGHT}" rx="5"/>'
            f'<text x="{left + width / 2:.0f}" y="{top + 27}" text-anchor="middle">{name}</text>'
        )
    height = 20 + len(rows) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">'
        "<title>Packages of Headrace by layer, and which imports which</title>"
        f"<style>{_STYLE}</style>"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
        ' orient="auto">'
        '<path d="M0,0 L8,4 L0,8" style="marker-end:none"/></marker></defs>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    sys.stdout.write(picture())
