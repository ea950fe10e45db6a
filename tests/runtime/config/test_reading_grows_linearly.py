"""A file that is eight times as long takes about eight times as long to read, whatever is in it."""

import gc
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.runtime.config.function_reader import load_function
from headrace.runtime.errors import ConfigError

SMALL, LARGE = 16 * 1024, 128 * 1024
_MOST_RATIO = 30  # 8 where it grows with the length, 64 where with its square
_NOTICEABLE_SECONDS = 0.01
HEAD = "metadata: {name: f}\nspec:\n  handler: h:handler\n  disableDefaultHTTPTrigger: true\n"
TRIGGER = f"{HEAD}  triggers:\n    t:\n      kind: kafka\n      attributes:\n        consumerGroup: g\n"


def many(count: int, text: Callable[[int], str], between: str = ", ") -> str:
    return between.join(map(text, range(count)))


MAKERS: dict[str, Callable[[int], str]] = {
    "topics": lambda n: f"{TRIGGER}        topics: [{many(n // 9, 't{}'.format)}]\n",
    "partitions": lambda n: f"{TRIGGER}        partitions: [{many(n // 7, str)}]\n",
    "brokers": lambda n: f"{TRIGGER}        brokers: [{many(n // 12, 'b{}:9092'.format)}]\n",
    "triggers": lambda n: (
        f"{HEAD}  triggers: {{{many(n // 120, lambda it: f't{it}: {{kind: kafka}}'.ljust(118))}}}\n"
    ),
    "annotations": lambda n: (
        f"metadata:\n  annotations:\n{many(n // 26, '    nuclio.io/kafka-a{}: x'.format, chr(10))}\n"
    ),
    "unknown keys": lambda n: f"{HEAD}{many(n // 12, '  key{}: 1'.format, chr(10))}\n",
    "long key": lambda n: f"{HEAD}  ? {'ab' * (n // 2)}\n  : 1\n",
    "references that are not closed": lambda n: f'{HEAD}  description: "{"${A:-" * (n // 5)}"\n',
    "references": lambda n: f'{HEAD}  description: "{"${A:-}" * (n // 6)}"\n',
    "blocks that are not closed": lambda n: (
        f"{TRIGGER}        caCert: '{'-----BEGIN CERTIFICATE-----@' * (n // 28)}'\n"
    ),
    "merges of one mapping": lambda n: (
        f"a: &a {{{many(n // 20, 'k{}: 1'.format)}}}\nb: {{<<: [{many(n // 8, lambda _: '*a')}]}}\n"
    ),
    "merge keys": lambda n: f"a: &a {{}}\nb: {{{many(n // 8, lambda _: '<<: *a')}}}\n",
    "aliases": lambda n: f"a: &a [x, y]\nb: [{many(n // 4, lambda _: '*a')}]\n",
    "nested lists": lambda n: f"{HEAD}  build: [{many(n // 181, lambda _: '[' * 90 + ']' * 90)}]\n",
    "durations": lambda n: f"{HEAD}  eventTimeout: {'1h' * (n // 2)}\n",
    "text": lambda n: f"{HEAD}  description: {'x' * n}\n",
}


def seconds_to_read(file: Path, text: str) -> float:
    """Processor time, the best of three."""
    file.write_text(text)
    taken = []
    for _ in range(3):
        gc.collect()
        gc.disable()
        begun = time.thread_time()
        with pytest.raises(ConfigError):
            load_function(file)
        taken.append(time.thread_time() - begun)
        gc.enable()
    return min(taken)


@pytest.mark.full
@pytest.mark.parametrize("what", MAKERS)
def test_reading_grows_with_the_length(what: str, tmp_path: Path) -> None:
    make, file = MAKERS[what], tmp_path / "function.yaml"
    seconds_to_read(file, make(1024))  # what is read once for all files
    small = max(seconds_to_read(file, make(SMALL)), _NOTICEABLE_SECONDS)
    large = seconds_to_read(file, make(LARGE))
    assert large / small < _MOST_RATIO, f"{small:.3f} s, then {large:.3f} s"


def test_a_long_chain_of_merges_is_one_problem(tmp_path: Path) -> None:
    file = tmp_path / "function.yaml"
    chain = [f"a{number}: &a{number} {{<<: *a{number - 1}}}" for number in range(1, 5000)]
    file.write_text("\n".join(["a0: &a0 {}", *chain]))
    with pytest.raises(ConfigError, match="nested more than 100 levels deep"):
        load_function(file)


def test_only_the_first_of_many_unknown_keys_are_compared_with_what_is_known(tmp_path: Path) -> None:
    file = tmp_path / "function.yaml"
    file.write_text(MAKERS["unknown keys"](SMALL))
    with pytest.raises(ConfigError) as caught:
        load_function(file)
    said = [problem.message for problem in caught.value.problems if problem.message.startswith("unknown key")]
    assert sum("the nearest known key is" in message for message in said) == 100
    assert len(said) == SMALL // 12
