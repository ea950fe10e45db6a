"""Where results go, and what exactlyOnce goes with: `resultTopic`, `exactlyOnce`."""

from pathlib import Path
from typing import Any

import pytest
from kafka_settings import RANGES, notices_of, problems_with

BATCHES = {"mode": "enable", "batchSize": 10, "timeout": "1s"}
ONCE = {"exactlyOnce": True}


@pytest.mark.parametrize(
    ("attributes", "fields", "says"),
    [
        (ONCE | {"ackWindowSize": 5}, {}, "ackWindowSize: must be 0 with exactlyOnce"),
        (ONCE | RANGES, {"batch": BATCHES}, "exactlyOnce: with delivery: ranges is known, but not built"),
        (
            ONCE | {"workerAllocationMode": "static"},
            {"batch": BATCHES, "explicitAckMode": "enable"},
            "exactlyOnce: with batches needs explicitAckMode disable",
        ),
        (
            RANGES | {"resultTopic": "out"},
            {"batch": BATCHES},
            "resultTopic: with delivery: ranges is known, but not built",
        ),
        ({"topics": ["a", "b"], "resultTopic": "b"}, {}, "it would feed itself"),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, attributes: dict[str, Any], fields: dict[str, Any], says: str
) -> None:
    assert says in problems_with(tmp_path, attributes, **fields)


@pytest.mark.parametrize("fields", [{}, {"batch": BATCHES}])
def test_the_rest_does(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert notices_of(tmp_path, ONCE | {"resultTopic": "out"}, **fields) == ""
