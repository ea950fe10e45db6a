"""`python -m headrace.functions.run_tracking`: run all of it on this machine, Kafka included."""

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import click

from headrace.functions.run_tracking.settings import SettingsError, read_settings
from headrace.functions.run_tracking.topics import TopicsError, client_options, create_topics, topics_of

_FUNCTION = Path(__file__).with_name("function.yaml")
_KAFKA_PORT = 9092
_STOP_SECONDS = 30.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A child that ends with this process, even a killed one. PDEATHSIG survives exec; the parent is checked
# after it is set, as it may have ended before.
_ENDS_WITH_PARENT = """
import ctypes, os, sys
PR_SET_PDEATHSIG, SIGTERM = 1, 15
if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGTERM) or os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.executable, [sys.executable, "-P", "-m", "headrace", *sys.argv[2:]])
"""


class LaunchError(Exception):
    """A process hasn't started, or has ended by itself. The message is one line."""


@click.command()
@click.option("--brokers", metavar="HOST:PORT", help="Instead of a Kafka that is started here.")
@click.option("--create-topics", is_flag=True, help="With --brokers: those that aren't there.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(brokers: str | None, options: Sequence[str], *, create_topics: bool) -> None:
    """Track runs until Ctrl-C. OPTIONS, behind --, are those of `headrace run`."""
    try:
        sys.exit(asyncio.run(Launch(options).run(brokers, create_topics=create_topics)))
    except (LaunchError, SettingsError, TopicsError) as error:
        click.echo(error, err=True)
        sys.exit(1)


class Launch:
    """The processes of the command: `headrace run`, and an embedded Kafka where no brokers are given.

    Signals are passed on to `headrace run`, whose exit code is the command's.
    """

    def __init__(self, options: Sequence[str]) -> None:
        self._options = options
        self._run: Process | None = None

    async def run(self, brokers: str | None, *, create_topics: bool) -> int:
        """Run until `headrace run` has ended; return its exit code.

        Raises LaunchError, SettingsError, TopicsError.
        """
        task = asyncio.ensure_future(self._launch(brokers, create_topics=create_topics))
        for number in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._pass_on, number, task)
        try:
            return await task
        except asyncio.CancelledError:  # a signal came before anything ran
            return 0

    def _pass_on(self, number: signal.Signals, task: "asyncio.Task[int]") -> None:
        if self._run is None:
            # Only once: a second cancellation would interrupt the cleanup of the first.
            task.cancelling() or task.cancel()
        else:
            with suppress(ProcessLookupError):
                self._run.send_signal(number)

    async def _launch(self, brokers: str | None, *, create_topics: bool) -> int:
        if brokers is not None:
            environment = {**os.environ, **broker_variables(brokers, os.environ)}
            if create_topics:
                await _create_topics(brokers, environment)
            return await self._function(brokers, environment, None)
        # Kafka is left last, after `headrace run` has committed.
        async with _kafka() as (kafka, address):
            # Whatever the environment says of another one, this one asks for nothing.
            plain = {**os.environ, "KAFKA_SECURITY_PROTOCOL": "PLAINTEXT"}
            environment = {**plain, **broker_variables(address, plain)}
            await _create_topics(address, environment)
            return await self._function(address, environment, kafka)

    async def _function(self, brokers: str, environment: Mapping[str, str], kafka: Process | None) -> int:
        click.echo(startup_message(environment))
        arguments = ("run", str(_FUNCTION), "--brokers", brokers, *self._options)
        async with _child(*arguments, environment=environment) as self._run:
            # Whichever ends first: a function without its Kafka would only retry.
            ends = [asyncio.ensure_future(it.wait()) for it in (self._run, kafka) if it is not None]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not ends[0].done():
                raise LaunchError("Kafka has ended by itself, and so does what needs it")
            return _shell_code(ends[0].result())


def broker_variables(brokers: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that function.yaml reads for these brokers. Raises SettingsError."""
    protocol = client_options(brokers, environment)["security_protocol"]
    return {
        "KAFKA_BOOTSTRAP_SERVERS": brokers,
        "TRACKING_TLS": str(protocol.endswith("SSL")).lower(),
        "TRACKING_SASL": str(protocol.startswith("SASL")).lower(),
    }


def startup_message(environment: Mapping[str, str]) -> str:
    """Return the lines that tell the user where the page and the frontier are. Raises SettingsError."""
    frontier = read_settings(environment).frontier_url
    page = f"http://127.0.0.1:{environment.get('BACKEND_PORT') or 53800}"
    client = f"{Path(sys.executable).name} -m headrace.functions.run_tracking.client --frontier {frontier}"
    return f"page      {page}\nfrontier  {frontier}\nclient    {client}"


async def _create_topics(brokers: str, environment: Mapping[str, str]) -> None:
    await create_topics(client_options(brokers, environment), topics_of(environment), say=click.echo)


@asynccontextmanager
async def _kafka() -> AsyncIterator[tuple[Process, str]]:
    """Run an embedded Kafka; yield its process and its address once it answers."""
    # Kafka's usual port where it is free, so that other tools find it; else any port.
    port = str(_KAFKA_PORT if _is_free(_KAFKA_PORT) else 0)
    async with _child("kafka", "up", "--port", port, "--json", environment=os.environ, stdout=PIPE) as kafka:
        assert kafka.stdout is not None
        try:
            yield kafka, json.loads(await kafka.stdout.readline())["bootstrap"]
        except json.JSONDecodeError:
            raise LaunchError("Kafka has not started") from None


@asynccontextmanager
async def _child(
    *arguments: str, environment: Mapping[str, str], stdout: int | None = None
) -> AsyncIterator[Process]:
    """Run `headrace` with `arguments`; it has ended when the context is left.

    It has a process group of its own, so that Ctrl-C doesn't reach it directly but through Launch, in order.
    """
    command = (sys.executable, "-P", "-c", _ENDS_WITH_PARENT, str(os.getpid()), *arguments)
    child = await asyncio.create_subprocess_exec(*command, env=environment, stdout=stdout, process_group=0)
    try:
        yield child
    finally:
        if child.returncode is None:
            with suppress(ProcessLookupError):
                child.terminate()
        try:
            await asyncio.wait_for(child.wait(), _STOP_SECONDS)
        except TimeoutError:
            child.kill()
            await child.wait()


def _is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def _shell_code(code: int) -> int:
    """Return a process's exit code as a shell reports it: 128 + N after signal N."""
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()
