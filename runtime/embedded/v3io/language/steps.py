"""How much work one look at an item may be, counted and not timed."""

from headrace.runtime.embedded.v3io.language.errors import MalformedError
from headrace.runtime.embedded.v3io.language.syntax import Lookup
from headrace.runtime.embedded.v3io.language.values import Value

MOST_STEPS = 50_000
BYTES_PER_STEP = 4096


class Steps:
    """Of all expressions that one item is asked: a step is a word of one, or 4 KiB of a value that it takes.

    Evaluation looks at each word once, so this is all that it can cost.
    """

    def __init__(self) -> None:
        self.count = 0

    def take(self, count: int) -> None:
        """MalformedError where that is more than there may be."""
        self.count += count
        if self.count > MOST_STEPS:
            raise MalformedError(
                f"it takes more than {MOST_STEPS} steps, each a word or {BYTES_PER_STEP} bytes of a value: "
                "make it shorter, or what it looks at smaller"
            )

    def counted(self, lookup: Lookup) -> Lookup:
        """The same values, each counted as often as it is looked at."""

        def look(name: str) -> Value | None:
            value = lookup(name)
            if isinstance(value, str | bytes):
                self.take(len(value) // BYTES_PER_STEP)
            return value

        return look
