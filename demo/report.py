"""The demo's report: one HTML file without outside resources."""

import html
from collections.abc import Iterable

from plots import draw_lag, draw_rates, draw_totals
from timeline import History
from totals import HEADINGS, TITLE, Totals, totals_as_text

_PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Headrace demo</title>
<style>
body {{ font: 15px/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
h2 {{ font-size: 1.05rem; margin: 2rem 0 0.5rem; }}
svg {{ width: 100%; height: auto; }}
.wide {{ overflow-x: auto; }}  /* on a phone, what is wider than the page moves by itself */
.wide svg {{ min-width: 36rem; }}
p {{ overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
td, th {{ padding: 0.2rem 0.8rem; text-align: right; border-bottom: 1px solid #e4e4e4; white-space: nowrap; }}
tr:last-child {{ font-weight: bold; }}
</style>
<h1>Headrace demo</h1>
{lines}
<h2>Records per second</h2>
<div class="wide">{rates}</div>
<h2>Lag: orders in Kafka, and not yet in both sinks</h2>
<div class="wide">{lag}</div>
<h2>{title}</h2>
<div class="wide">{totals}</div>
<div class="wide"><table>{table}</table></div>
</html>
"""


def write_page(history: History, names: list[str], totals: Totals, lines: Iterable[str]) -> str:
    """Return the page's text. `lines` are the result."""
    rows = [_row("th", HEADINGS), *(_row("td", cells) for cells in totals_as_text(totals))]
    return _PAGE.format(
        lines="".join(f"<p>{html.escape(line)}</p>" for line in lines),
        rates=draw_rates(history, names),
        lag=draw_lag(history),
        title=html.escape(TITLE[0].upper() + TITLE[1:]),
        totals=draw_totals(totals),
        table="".join(rows),
    )


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"
