"""How many examples a property is tried on: all of them in `make test-full`, a third elsewhere."""

import os

IS_FULL = bool(os.environ.get("HEADRACE_TEST_FULL"))


def examples(of_all: int) -> int:
    return of_all if IS_FULL else of_all // 3
