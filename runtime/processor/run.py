"""Run of functions, from its start to its stop: embedded servers, then one processor or a supervisor."""

import importlib.util
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.runtime import worker as worker_package
from headrace.runtime.admin.server import admin_server
from headrace.runtime.admin.status_source import StartingStatus
from headrace.runtime.admin.token import NO_TOKEN, TOKEN_VARIABLE, AdminToken, kept_for_commands, take_token
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.handler_lookup import module_file
from headrace.runtime.embedded.spark.server import SparkServer
from headrace.runtime.embedded.spark.sharing import functions_with_own_spark
from headrace.runtime.errors import UsageError
from headrace.runtime.log import LOG_TAIL
from headrace.runtime.processes import picked
from headrace.runtime.processor.handler_code import written_out
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.processor import Processor
from headrace.runtime.processor.replica_heartbeat import SupervisorLink, stop_seconds
from headrace.runtime.processor.services import at_services, running_services, with_addresses
from headrace.runtime.processor.stopping import Stopping
from headrace.runtime.processor.supervisor import Supervisor
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.users import OURS, ProcessUser, find_user, gain_no_privileges
from headrace.runtime.web.addresses import TcpAddress
from headrace.triggers.base import Hurrying

logger = logging.getLogger(__name__)


async def run_functions(functions: Sequence[FunctionSpec], options: RunOptions) -> None:
    """Run functions until SIGTERM, Ctrl-C, or an error that ends the run. Raises HeadraceError."""
    functions = _enabled(functions)
    if options.debug:
        functions = _to_debug(functions, options)
    stopping = Stopping()
    stopping.on_signals()
    on_loaded = _link_to_supervisor(functions, options, stopping)
    # On a replica's Unix socket only the supervisor asks, which runs as the same user.
    token = take_token() if isinstance(options.admin, TcpAddress) else NO_TOKEN
    for function in functions:
        logger.info("function %s: %s from %s", function.name, function.handler, function.path)
    async with AsyncExitStack() as stack:
        stack.enter_context(_log_tail_kept())
        status = StartingStatus([function.name for function in functions])
        # The admin server comes first: probes get an answer while servers and workers start.
        url = await stack.enter_async_context(admin_server(status, options.admin, token))
        file = stack.enter_context(kept_for_commands(token.text, url)) if token.is_made_up else None
        startup = _Startup(functions, options, stopping, status, on_loaded)
        if runner := await stopping.unless_requested(startup.begin(stack)):
            status.hand_over(runner)
            if isinstance(options.admin, TcpAddress):
                logger.info("admin server at %s (/live, /ready, /metrics, /api/status)", url)
                _log_where_the_token_is(token, file, is_local=options.admin.is_local)
            stopping.ask_whether_up(runner.has_been_up)
            await runner.run(stopping.requested)
    logger.info("stopped")


@contextmanager
def _log_tail_kept() -> Iterator[None]:
    """Keep the last lines of the log for the admin server's page."""
    root = logging.getLogger()
    root.addHandler(LOG_TAIL)
    try:
        yield
    finally:
        root.removeHandler(LOG_TAIL)


def _log_where_the_token_is(token: AdminToken, file: Path | None, *, is_local: bool) -> None:
    """Tell in the log where whoever is to move a partition finds the token."""
    if file is not None:
        logger.info("to move a halted partition takes the token in %s", file)
    if not token.is_made_up or (file is not None and is_local):
        return
    if is_local and not sys.stderr.isatty():  # others may read this log later: keep the token out of it
        message = "nobody can move a halted partition: no file can keep the token (%s); give one in %s"
        logger.warning(message, "~/.local/state/headrace, or XDG_STATE_HOME", TOKEN_VARIABLE)
        return
    logger.info(
        "to move a halted partition from elsewhere, `headrace partition` needs %s=%s",
        TOKEN_VARIABLE,
        token.text,
    )


@dataclass(frozen=True, slots=True)
class _Startup:
    """Start of a run, up to the processor or supervisor that runs the functions."""

    functions: Sequence[FunctionSpec]
    options: RunOptions
    stopping: Stopping
    status: StartingStatus
    on_loaded: Callable[[], None]
    """Called once all handlers are loaded."""

    async def begin(self, stack: AsyncExitStack) -> Supervisor | Processor:
        """Start what the functions need, and return what runs them. The caller closes `stack`."""
        options, stopping = self.options, self.stopping
        user = _worker_user(self.functions, options)
        self.status.enter("embedded servers" if options.embedded_kafka or options.embedded_v3io else "")
        services = await stack.enter_async_context(running_services(self.functions, options, stopping))
        passed_on = picked(os.environ, options.pass_env)
        functions = with_addresses([function.with_env(passed_on) for function in self.functions])
        spark = await self._spark(functions, user, stack)
        if options.replicas > 1:
            # Replicas are told where the services are: only this process starts any.
            options = replace(options, brokers=services["kafka"], v3io=services["v3io"])
            supervisor = Supervisor(functions, options, spark)
            stack.enter_context(stopping.killing(supervisor.kill))
            return supervisor
        runnable = await stack.enter_async_context(written_out(functions, user))
        index, count = options.replica_index, options.replica_count
        placed = [with_replica(at_services(function, services), index, count) for function in runnable]
        sparks = dict(_spark_links(functions, spark))
        return Processor(placed, options.replica_name, sparks, self.on_loaded, user, reloads=options.reload)

    async def _spark(
        self, functions: Sequence[FunctionSpec], user: ProcessUser, stack: AsyncExitStack
    ) -> SparkLink | None:
        """Return the supervisor's Spark server, else start one where a function needs it."""
        if given := SparkLink.from_environment():
            self.status.enter("")
            return given
        sharers = functions_with_own_spark(functions)
        self.status.enter("Spark" if sharers else "")
        if not sharers:
            return None
        return await stack.enter_async_context(_spark_server(sharers, user, self.stopping))


def _enabled(functions: Sequence[FunctionSpec]) -> list[FunctionSpec]:
    """Return the functions that aren't disabled. Raises UsageError where none is left."""
    if enabled := [function for function in functions if not function.disabled]:
        return enabled
    first = functions[0]
    raise UsageError(f"{first.path}: spec.disable is true; set it to false to run {first.name}")


def _to_debug(functions: Sequence[FunctionSpec], options: RunOptions) -> list[FunctionSpec]:
    """Return the functions for debugging. Raises UsageError where handlers would have no terminal."""
    if options.replicas > 1 or options.worker_user is not None:
        other = "--replicas" if options.replicas > 1 else "--worker-user"
        raise UsageError(f"--debug gives one process this terminal: leave out {other}")
    return [for_debugging(function) for function in functions]


def for_debugging(function: FunctionSpec) -> FunctionSpec:
    """Return the function with one worker for each trigger, which may stand at a breakpoint."""
    triggers = [
        replace(
            spec,
            fields=spec.fields.model_copy(update={"num_workers": 1}),
            settings=spec.settings.unhurried() if isinstance(spec.settings, Hurrying) else spec.settings,
        )
        for spec in function.triggers
    ]
    # A handler at a breakpoint takes as long as a person does.
    fields = function.fields.model_copy(update={"event_timeout_seconds": 0.0})
    return replace(function, fields=fields, triggers=tuple(triggers), is_debugged=True)


def _worker_user(functions: Sequence[FunctionSpec], options: RunOptions) -> ProcessUser:
    """Return the user as whom handlers run. Raises UsageError where they can't."""
    if options.worker_user is None:
        return OURS
    user = find_user(options.worker_user)
    user.check_reach(_files_of_workers(functions))  # now, in words; workers would only fail to start
    gain_no_privileges()
    return user


def _files_of_workers(functions: Sequence[FunctionSpec]) -> Iterator[Path]:
    yield Path(worker_package.__file__)
    sdk = importlib.util.find_spec("nuclio_sdk")
    if sdk is not None and sdk.origin:
        yield Path(sdk.origin)
    for function in functions:
        if not function.code:  # else the module is written out for that user
            yield function.folder
            yield module_file(function.folder, function.handler_module) or function.folder


@asynccontextmanager
async def _spark_server(
    sharers: Sequence[FunctionSpec], user: ProcessUser, stopping: Stopping
) -> AsyncIterator[SparkLink]:
    """Run the Spark server that functions without a remote one share."""
    server = SparkServer(sharers, user=user)
    with stopping.killing(server.kill):
        async with server:
            # To stop Spark in order takes a while: a run that is stopped while it starts doesn't wait for it.
            early = start_task(_at_an_early_stop(server.kill, stopping), "the watch over an early stop")
            try:
                yield server.link
            finally:
                await end_tasks([early])


async def _at_an_early_stop(kill: Callable[[], None], stopping: Stopping) -> None:
    """Kill the server at a stop before handlers are up: it has served nobody, so nothing is to be ended."""
    await stopping.requested.wait()
    if not stopping.is_up():
        kill()


def _spark_links(
    functions: Sequence[FunctionSpec], shared: SparkLink | None
) -> Iterator[tuple[str, SparkLink]]:
    """Yield the server of each function that has Spark, by the function's name."""
    for function in functions:
        spec = function.spark
        if spec is not None and spec.remote:
            yield function.name, SparkLink(spec.remote, spec.token, spec.conf)
        elif spec is not None and shared is not None:
            yield function.name, shared


def with_replica(function: FunctionSpec, index: int | None, count: int) -> FunctionSpec:
    """Return the function with triggers that know the number of their replica, and how many there are.

    Others may run elsewhere: the file may say more than the `count` of this machine.
    """
    triggers = [
        replace(spec, replica_index=index, replica_count=max(count, spec.replica_count))
        for spec in function.triggers
    ]
    return replace(function, triggers=tuple(triggers))


def _link_to_supervisor(
    functions: Sequence[FunctionSpec], options: RunOptions, stopping: Stopping
) -> Callable[[], None]:
    """Stop with the supervisor, if there is one. Return what to call once the handlers are loaded."""
    if options.parent_fd is None:
        return lambda: None
    link = SupervisorLink(options.parent_fd, stopping.with_supervisor, stop_seconds(functions))
    return link.report_loaded
