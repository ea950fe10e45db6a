"""The page's files, by the backend itself. test_runs_page.py looks at it in a browser."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from backend_site import Backend


@pytest.mark.parametrize(
    ("path", "content_type"),
    [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")],
)
def test_the_page_is_of_this_function_and_talks_to_nobody_else(
    engine: sa.Engine, tmp_path: Path, path: str, content_type: str
) -> None:
    answer = Backend(engine, tmp_path).ask("GET", path)
    assert answer.status_code == 200
    assert answer.content_type.startswith(content_type)
    body = answer.body.replace(b"http://www.w3.org/2000/svg", b"").replace(b"// ", b"")
    assert b"//" not in body
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_the_page_makes_no_markup_of_texts_and_has_none_inline(engine: sa.Engine, tmp_path: Path) -> None:
    backend = Backend(engine, tmp_path)
    script, page = (backend.ask("GET", path).body.decode() for path in ("/page.js", "/"))
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in script
    assert "style=" not in page
    assert "onclick" not in page
    assert page.count("<script") == page.count("<script src=") == 1
