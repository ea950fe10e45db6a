"""A real Apache Kafka on loopback: one KRaft node, owned by this process and dying with it."""

import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.runtime.embedded.data_folder import OwnedFolder
from headrace.runtime.embedded.kafka.format import certificate, format_records
from headrace.runtime.embedded.kafka.process import BrokerJava, BrokerProcess, find_broker_java, last_lines
from headrace.runtime.embedded.kafka.properties import broker_settings, write_properties
from headrace.runtime.embedded.kafka.security import CLIENTS_PEM, SERVER_PEM, BrokerSecurity
from headrace.runtime.embedded.ports import HOST, choose_ports, claim_port
from headrace.runtime.embedded.subprocesses import run_in_thread
from headrace.runtime.errors import UsageError
from headrace.runtime.kafka.access import BrokerAccess
from headrace.runtime.kafka.topics import create_topics

_NONE = BrokerSecurity()


class EmbeddedKafka:
    """A broker. `start` may fail, `stop` is idempotent and bounded, `async with` does both.

    `data_dir` None: a temporary folder, deleted by `stop`. Given: kept, formatted when it is new.
    `port` 0: a free one, also where `port` is taken and `may_move`. `security` adds listeners, whose
    certificate is `ca_pem`; the SCRAM users are written when the folder is formatted. The plaintext listener
    is always there.

    Call `start` and `restart` from a thread that lives as long as the broker shall (the main
    one): the kernel kills the broker when that thread ends. Bound to no event loop in between.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        port: int = 0,
        may_move: bool = False,
        heap_mib: int = 512,
        security: BrokerSecurity = _NONE,
    ) -> None:
        self._folder = OwnedFolder(data_dir.expanduser().absolute() if data_dir else None, "headrace-kafka-")
        self._port = port
        self._may_move = may_move
        self._claim: socket.socket | None = None
        self._heap_mib = heap_mib
        self._security = security
        self._ports: dict[str, int] = {}
        self._java: BrokerJava | None = None
        self._process: BrokerProcess | None = None
        self.ca_pem = ""

    @property
    def bootstrap(self) -> str:
        """host:port of the plaintext listener; empty while there is none."""
        return self._address("PLAINTEXT")

    @property
    def sasl_bootstrap(self) -> str:
        """host:port of the SASL_PLAINTEXT listener; empty where there is none, as for the others."""
        return self._address("SASL")

    @property
    def sasl_tls_bootstrap(self) -> str:
        """host:port of the SASL_SSL listener."""
        return self._address("SASL_TLS")

    @property
    def mutual_tls_bootstrap(self) -> str:
        """host:port of the listener that asks for client certificates."""
        return self._address("MUTUAL_TLS")

    @property
    def tls_bootstrap(self) -> str:
        """host:port of the SSL listener."""
        return self._address("TLS")

    @property
    def pid(self) -> int | None:
        """The broker's process, None while there is none."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Return when the broker serves. UsageError: the machine; BrokerError: the broker."""
        if self._process is not None:
            return
        # Preparing runs programs in a thread; the broker is started from this one, and dies with it.
        try:
            folder = await self._folder.take()
            await run_in_thread(self._prepare, folder)
            await self._launch()
        except OSError as error:
            self.kill()
            raise UsageError(
                f"embedded Kafka cannot use {error.filename or self._folder.kept or 'its folder'}: "
                f"{error.strerror}; make room or choose another data folder"
            ) from error
        except BaseException:
            self.kill()  # it has served nobody: there is nothing to wait for
            raise

    async def stop(self) -> None:
        """End the broker: SIGTERM, a bounded wait, SIGKILL. A temporary folder goes with it."""
        await self._halt(signal.SIGTERM)
        await self._folder.release()
        self._give_up_ports()

    def kill(self) -> None:
        """Stop the broker without waiting for anything: kill -9. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        self._folder.release_at_once()
        self._give_up_ports()

    async def restart(self, *, kill: bool = False) -> None:
        """Start the same broker again, with the same ports and data; `kill` ends it by kill -9 first."""
        assert self._folder.path is not None, "restart what was started"
        await self._halt(signal.SIGKILL if kill else signal.SIGTERM)
        await self._launch()

    async def wait(self) -> str:
        """Wait until the broker has ended by itself or was stopped; return its last log lines."""
        if self._process is not None:
            await self._process.until_ended()
        return last_lines(self._folder.path) if self._folder.path else "stopped"

    async def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """Create topics, with their numbers of partitions (runtime/kafka/topics.py)."""
        await create_topics(BrokerAccess(self.bootstrap), topics, config)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def _address(self, listener: str) -> str:
        return f"{HOST}:{self._ports[listener]}" if listener in self._ports else ""

    def _prepare(self, folder: Path) -> None:
        """Prepare everything that the broker needs before it starts. Blocks: runs in a thread."""
        # All ports at once: the properties that are written below name each of them.
        self._ports = choose_ports(self._claimed_port(), self._security.listeners)
        self._java = find_broker_java(folder, self._ports["PLAINTEXT"])
        (folder / "tmp").mkdir(exist_ok=True)
        settings = broker_settings(self._ports, self._security)
        format_records(self._java, settings, self._security.scram_users())
        # A certificate of the user's own needs no keystore: Java reads its PEM.
        if any("TLS" in name for name in self._security.listeners) and not self._security.server_pem:
            self.ca_pem = certificate(self._java)
        for name, pem in (
            (CLIENTS_PEM, self._security.client_ca_pem),
            (SERVER_PEM, self._security.server_pem),
        ):
            # The mode comes before the content: a key must not be readable by others for a moment.
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(pem)
        write_properties(folder / "broker.properties", settings)

    def _claimed_port(self) -> int:
        """Claim the port that was asked for; return it, or 0 for any. UsageError where it can't be had."""
        # The claim lasts until the broker ends: two that start at once can't both find the port free.
        if not self._port:
            return 0
        try:
            self._claim = claim_port(self._port)
        except UsageError:
            if not self._may_move:
                raise
            return 0
        return self._port

    def _give_up_ports(self) -> None:
        if self._claim is not None:
            self._claim.close()
            self._claim = None
        self._ports = {}

    async def _launch(self) -> None:
        assert self._java is not None
        self._process = BrokerProcess(self._java, heap_mib=self._heap_mib, lock_fd=self._folder.lock_fd)
        await self._process.until_ready(self._ports["PLAINTEXT"])

    async def _halt(self, how: signal.Signals) -> None:
        if self._process is not None:
            try:
                await self._process.end(how)
            finally:
                self._process = None  # also where the wait was cancelled: it is killed by then
