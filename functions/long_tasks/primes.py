"""The default task: count primes, which takes as long as the payload is large."""

from typing import Any

from headrace.functions.long_tasks.checkpoints import Progress
from headrace.functions.long_tasks.communication_pb2 import Request

_STEP = 1000


def count_primes(request: Request, progress: Progress, *, worker_number: int, **_: Any) -> int:
    """Count the primes below the payload, a decimal number. Raises ValueError for other payloads."""
    limit = int(request.payload)
    begin, count = map(int, (progress.saved or b"0 0").split())
    for first in range(begin, limit, _STEP):
        if progress.should_save:
            progress.save(b"%d %d" % (first, count))
        count += sum(map(_is_prime, range(first, min(first + _STEP, limit))))
    print(f"worker {worker_number}: {count} primes below {limit}")  # noqa: T201  # a line of the function's log
    return count


def _is_prime(number: int) -> bool:
    if number < 2:
        return False
    return all(number % divisor for divisor in range(2, int(number**0.5) + 1))
