"""Orders and amounts by window and product: the expected totals, and totals as text."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

from orders import PRODUCTS, Order

WINDOW = timedelta(seconds=5)
TITLE = "orders by window of 5 s (UTC) and product"
HEADINGS = ("window", *PRODUCTS, "all", "amount")
_EPOCH = datetime.fromtimestamp(0, UTC)

Totals = Mapping[tuple[datetime, str], tuple[int, float]]
"""Number of orders and their amount, by the window's start in UTC and the product."""


def totals_of(orders: Iterable[Order]) -> Totals:
    """Return the totals that the pipeline should come to."""
    counts, amounts = Counter[tuple[datetime, str]](), dict[tuple[datetime, str], float]()
    for order in orders:
        window = order.at - (order.at - _EPOCH) % WINDOW, order.product
        counts[window] += 1
        amounts[window] = amounts.get(window, 0.0) + order.amount
    return {window: (count, amounts[window]) for window, count in counts.items()}


def totals_as_text(totals: Totals) -> Iterator[list[str]]:
    """Yield the cells below HEADINGS: a row for each window, then one for all."""
    for start in sorted({start for start, _ in totals}):
        window = {key: values for key, values in totals.items() if key[0] == start}
        yield [f"{start:%H:%M:%S}", *_cells(window)]
    yield ["all", *_cells(totals)]


def _cells(totals: Totals) -> Iterator[str]:
    counts = Counter[str]()
    for (_, product), (count, _) in totals.items():
        counts[product] += count
    yield from (f"{counts[product]:,}" for product in PRODUCTS)
    yield f"{counts.total():,}"
    yield f"{sum(amount for _, amount in totals.values()):,.0f}"
