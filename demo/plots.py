"""Plots of the demo's history, as SVG without outside resources."""

import io
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from orders import PRODUCTS
from timeline import History
from totals import Totals

_COLORS = ("#2563a8", "#d97b29", "#3f8f5b", "#8a5aa8", "#b8443f")
_STYLE: Any = {
    "svg.fonttype": "none",  # text stays text
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
}
rcParams.update(_STYLE)


def draw_rates(history: History, names: list[str]) -> str:
    """Plot records per second of each replica, stacked, and what was produced."""
    figure, axes = _new_figure("records/s")
    seconds = [sample.seconds for sample in history.samples]
    axes.stackplot(
        seconds,
        *(history.rates(name) for name in names),
        labels=[f"handled by {name}" for name in names],
        colors=_COLORS,
        alpha=0.85,
    )
    axes.plot(seconds, history.rates(), color="black", linewidth=1, label="produced")
    _mark_moments(axes, history)
    figure.legend(loc="outside lower center", fontsize=8, ncols=3)
    return _svg(figure)


def draw_lag(history: History) -> str:
    """Plot orders that were in Kafka and not yet in both sinks."""
    figure, axes = _new_figure("orders behind")
    seconds = [sample.seconds for sample in history.samples]
    axes.fill_between(seconds, [sample.lag for sample in history.samples], color=_COLORS[4], alpha=0.6)
    _mark_moments(axes, history)
    return _svg(figure)


def draw_totals(totals: Totals) -> str:
    """Plot the table's totals: a bar for each window, a colour for each product."""
    figure, axes = _new_figure("orders")
    starts = sorted({start for start, _ in totals})
    bottoms = [0] * len(starts)
    for product, color in zip(PRODUCTS, _COLORS, strict=True):
        heights = [totals.get((start, product), (0, 0.0))[0] for start in starts]
        labels = [f"{start:%H:%M:%S}" for start in starts]
        axes.bar(labels, heights, bottom=bottoms, label=product, color=color, width=0.8)
        bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    axes.set_xlabel("window (UTC)")
    figure.legend(loc="outside lower center", fontsize=8, ncols=len(PRODUCTS))
    return _svg(figure)


def _new_figure(what: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots()
    axes.set_ylabel(what)
    axes.set_xlabel("seconds")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    return figure, axes


def _mark_moments(axes: Axes, history: History) -> None:
    axes.set_ylim(bottom=0)
    for number, moment in enumerate(history.moments):
        axes.axvline(moment.seconds, color="#555555", linestyle="--", linewidth=1)
        height = 1.02 + 0.08 * number  # one above the other: they may be close
        axes.annotate(moment.text, (moment.seconds, height), xycoords=("data", "axes fraction"), fontsize=8)


def _svg(figure: Figure) -> str:
    """Return the SVG element, without the prologue of a file."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]
