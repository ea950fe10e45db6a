"""Function files with something wrong in them: a function, or clear lines. `make fuzz` tries many more."""

from pathlib import Path

from effort import examples
from hypothesis import HealthCheck, given, settings
from mutated_files import check, mutated_texts


@settings(
    max_examples=examples(300),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(text=mutated_texts())
def test_a_mutated_file_gives_a_function_or_clear_lines(tmp_path: Path, text: str) -> None:
    assert check(tmp_path, text).problem_count >= 0
