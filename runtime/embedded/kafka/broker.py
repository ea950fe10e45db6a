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
    """One broker. `start` may fail, `stop` is idempotent and bounded, `async with` does both.

    `data_dir` None: a temporary folder, deleted by `stop`. Given: kept, formatted when it is new.
    `port` 0: a free one, also where `port` is taken and `may_move`. `guards` add listeners, whose certificate
    is `ca_pem`; the SCRAM users are written when the folder is formatted. The plaintext listener is always
    there.

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
        guards: BrokerSecurity = _NONE,
    ) -> None:
        self._folder = OwnedFolder(data_dir.expanduser().absolute() if data_dir else None, "headrace-kafka-")
        self._port = port
        self._may_move = may_move
        self._claim: socket.socket | None = None
        self._heap_mib = heap_mib
        self._guards = guards
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
        """host:port of the SASL_PLAINTEXT listener; empty without its guard, as the others are."""
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
        """`stop` for who can't wait: kill -9. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        self._folder.release_at_once()
        self._give_up_ports()

    async def restart(self, *, kill: bool = False) -> None:
        """The same broker again, same ports and data; `kill` ends it with kill -9 first."""
        assert self._folder.path is not None, "restart what was started"
        await self._halt(signal.SIGKILL if kill else signal.SIGTERM)
        await self._launch()

    async def wait(self) -> str:
        """Return when the broker has ended by itself or was stopped: its last log lines."""
        if self._process is not None:
            await self._process.until_ended()
        return last_lines(self._folder.path) if self._folder.path else "stopped"

    async def create_topics(self, topics: Mapping[str, int], config: Mapping[str, str] | None = None) -> None:
        """See `kafka_topics.create_topics`."""
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
        """Everything that the broker needs before it starts. Blocks: runs in a thread."""
        self._ports = choose_ports(self._claimed_port(), self._guards.listeners)
        self._java = find_broker_java(folder, self._ports["PLAINTEXT"])
        (folder / "tmp").mkdir(exist_ok=True)
        settings = broker_settings(self._ports, self._guards)
        format_records(self._java, settings, self._guards.scram_users())
        if any("TLS" in name for name in self._guards.listeners) and not self._guards.server_pem:
            self.ca_pem = certificate(self._java)
        for name, pem in ((CLIENTS_PEM, self._guards.client_ca_pem), (SERVER_PEM, self._guards.server_pem)):
            (folder / name).touch(mode=0o600)
            (folder / name).write_text(pem)
        write_properties(folder / "broker.properties", settings)

    def _claimed_port(self) -> int:
        """0 for any. UsageError where the one that is wanted can't be had."""
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
                self._process = None
