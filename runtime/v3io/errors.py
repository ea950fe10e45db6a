"""What a v3io web API may answer instead, in one line each."""

from headrace.runtime.errors import BrokerError


class V3ioError(BrokerError):
    """A call to a web API that came to nothing."""


class V3ioAwayError(V3ioError):
    """It did not answer, or can't for now: the call may have been done all the same. Waiting helps."""


class V3ioRefusedError(V3ioError):
    """It answered, and nothing was done. `status` is HTTP's, `reason` what it said."""

    def __init__(self, said: str, status: int, reason: str) -> None:
        super().__init__(said)
        self.status = status
        self.reason = reason

    @property
    def is_absent(self) -> bool:
        """There is no such stream, shard or item."""
        return self.status == 404

    @property
    def is_forbidden(self) -> bool:
        """Who asks may not do that, or isn't known."""
        return self.status in {401, 403}
