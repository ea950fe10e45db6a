"""Sign-ins that were taken once and are refused now: reported, and tried again less and less often."""

import logging
import time
from types import FunctionType
from typing import Any

from aiokafka.client import AIOKafkaClient, create_conn
from aiokafka.errors import KafkaConnectionError

from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.refusals import REFUSALS, refusal
from headrace.triggers.kafka.client.internals import rebind_globals

logger = logging.getLogger(__name__)

_FIRST_SECONDS = 1.0
_MAX_SECONDS = 30.0


class SignInWatch:
    """Watch over all connections that clients of a trigger, or an output, make after their start.

    A client tries again whenever it has something to send, and tells its log only: brokers lock out whoever
    asks too often, and all that one would hear is that commits fail.
    """

    def __init__(self, access: BrokerAccess, what_waits: str = "nothing is fetched or committed") -> None:
        self._access = access
        self._what_waits = what_waits
        self._wait_seconds = 0.0
        self._next_at = 0.0
        self.problem = ""
        """The refusal that stands now, as one line for `/ready`; empty if there is none."""

    def watch(self, client: Any) -> None:
        """Watch a client's new connections from now on.

        Reaches into aiokafka, pinned to 0.14; without what it looks for it does nothing.
        """
        method = getattr(AIOKafkaClient, "_get_conn", None)
        if isinstance(method, FunctionType) and "create_conn" in method.__code__.co_names:
            client._get_conn = rebind_globals(method, client, create_conn=self._connect)  # noqa: SLF001

    async def _connect(self, *where: object, **how: object) -> Any:
        # Brokers lock out whoever signs in too often: until the next try no connection is made at all.
        if time.monotonic() < self._next_at:
            raise KafkaConnectionError(self.problem)
        try:
            connection = await create_conn(*where, **how)
        except REFUSALS as error:
            self._refused(str(refusal(error, self._access)))
            raise
        if self.problem:
            logger.warning("%s takes the sign-in again", self._access)
        self.problem, self._wait_seconds = "", 0.0
        return connection

    def _refused(self, line: str) -> None:
        self._wait_seconds = min(max(_FIRST_SECONDS, 2 * self._wait_seconds), _MAX_SECONDS)
        self._next_at = time.monotonic() + self._wait_seconds
        if line != self.problem:
            logger.error(
                "%s; until it is mended %s, and nothing is lost; trying again, in %g s at most",
                line,
                self._what_waits,
                _MAX_SECONDS,
            )
        self.problem = line
