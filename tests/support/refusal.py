"""The error with which a command refuses what it was asked."""

from click.testing import Result

from headrace.runtime.errors import HeadraceError


def refused(result: Result, kind: type[HeadraceError], code: int | None = None) -> str:
    """The one line of an error of ours; the exit code is the error's own."""
    assert type(result.exception) is kind, result.output
    assert code in {None, kind.exit_code}
    assert "\n" not in str(result.exception)
    return str(result.exception)
