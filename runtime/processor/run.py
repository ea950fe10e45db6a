"""What `headrace run` does: embedded servers if asked for, then one processor, or several supervised."""

import importlib.util
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.runtime import worker as worker_room
from headrace.runtime.admin.server import admin_server
from headrace.runtime.admin.status_source import StartingStatus
from headrace.runtime.admin.token import NO_TOKEN, TOKEN_VARIABLE, AdminToken, kept_for_commands, take_token
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.handler_lookup import module_file
from headrace.runtime.embedded.spark.server import SparkServer
from headrace.runtime.embedded.spark.sharing import sharing
from headrace.runtime.errors import UsageError
from headrace.runtime.log import LOG_TAIL
from headrace.runtime.processes import picked
from headrace.runtime.processor.handler_code import written_out
from headrace.runtime.processor.options import RunOptions
from headrace.runtime.processor.processor import Processor
from headrace.runtime.processor.replica_heartbeat import SupervisorLink, stop_seconds
from headrace.runtime.processor.services import at_services, started, with_addresses
from headrace.runtime.processor.stopping import Stopping
from headrace.runtime.processor.supervisor import Supervisor
from headrace.runtime.spark.link import SparkLink
from headrace.runtime.tasks import end_tasks, start_task
from headrace.runtime.users import OURS, ProcessUser, find_user, gain_no_privileges
from headrace.runtime.web.addresses import TcpAddress
from headrace.triggers.base import Hurrying

logger = logging.getLogger(__name__)


async def run_functions(functions: Sequence[FunctionSpec], options: RunOptions) -> None:
    """Until SIGTERM, Ctrl-C, or an error that ends it. Raises HeadraceError."""
    functions = _to_run(functions)
    if options.debug:
        functions = _to_debug(functions, options)
    stopping = Stopping()
    stopping.on_signals()
    tell_up = _parent(functions, options, stopping)
    # Over its socket only the supervisor asks.
    token = take_token() if isinstance(options.admin, TcpAddress) else NO_TOKEN
    for function in functions:
        logger.info("function %s: %s from %s", function.name, function.handler, function.path)
    async with AsyncExitStack() as stack:
        stack.enter_context(_kept_for_page())
        front = StartingStatus(functions)
        url = await stack.enter_async_context(admin_server(front, options.admin, token))
        kept = stack.enter_context(kept_for_commands(token.text, url)) if token.is_made_up else None
        start = _Start(functions, options, stopping, front, tell_up)
        front.served = await stopping.unless_asked(_begin(start, stack))
        if front.served is not None:
            if isinstance(options.admin, TcpAddress):
                logger.info("admin server at %s (/live, /ready, /metrics, /api/status)", url)
                _tell(token, kept, is_local=options.admin.is_local)
            stopping.is_up = front.served.has_been_up
            await front.served.run(stopping.asked)
    logger.info("stopped")


@contextmanager
def _kept_for_page() -> Iterator[None]:
    root = logging.getLogger()
    root.addHandler(LOG_TAIL)
    try:
        yield
    finally:
        root.removeHandler(LOG_TAIL)


def _tell(token: AdminToken, kept: Path | None, *, is_local: bool) -> None:
    """Where whoever is to move a partition finds the token."""
    if kept is not None:
        logger.info("to move a halted partition takes the token in %s", kept)
    if not token.is_made_up or (kept is not None and is_local):
        return
    if is_local and not sys.stderr.isatty():  # a log that others may read later has it only where it must
        message = "nobody can move a halted partition: no file can keep the token (%s); give one in %s"
        logger.warning(message, "~/.local/state/headrace, or XDG_STATE_HOME", TOKEN_VARIABLE)
        return
    logger.info(
        "to move a halted partition from elsewhere, `headrace partition` needs %s=%s",
        TOKEN_VARIABLE,
        token.text,
    )


@dataclass(frozen=True, slots=True)
class _Start:
    functions: Sequence[FunctionSpec]
    options: RunOptions
    stopping: Stopping
    front: StartingStatus
    tell_up: Callable[[], None]


async def _begin(start: _Start, stack: AsyncExitStack) -> Supervisor | Processor:
    """All that has to be there before there is one. What it enters is the caller's to leave."""
    functions, options, stopping, front = start.functions, start.options, start.stopping, start.front
    user = _worker_user(functions, options)
    front.doing = "embedded servers" if options.embedded_kafka or options.embedded_v3io else ""
    services = await stack.enter_async_context(started(functions, options, stopping))
    passed = picked(os.environ, options.pass_env)
    functions = with_addresses([with_environment(function, passed) for function in functions])
    given = SparkLink.from_environment()
    sharers = [] if given else sharing(functions)
    front.doing = "Spark" if sharers else ""
    spark = await stack.enter_async_context(_spark_server(sharers, user, stopping)) if sharers else given
    if options.replicas > 1:
        told = replace(options, brokers=services["kafka"], v3io=services["v3io"])
        supervisor = Supervisor(functions, told, spark)
        stack.enter_context(stopping.killing(supervisor.kill))
        return supervisor
    runnable = await stack.enter_async_context(written_out(functions, user))
    index, count = options.replica_index, options.replica_count
    placed = [with_replica(at_services(function, services), index, count) for function in runnable]
    sparks = dict(_spark_links(functions, spark))
    processor = Processor(placed, options.replica_name, sparks, start.tell_up, user)
    processor.reloads = options.reload
    return processor


def _to_run(functions: Sequence[FunctionSpec]) -> list[FunctionSpec]:
    """Without those that are disabled. UsageError where none is left."""
    if enabled := [function for function in functions if not function.disabled]:
        return enabled
    first = functions[0]
    raise UsageError(f"{first.path}: spec.disable is true; set it to false to run {first.name}")


def _to_debug(functions: Sequence[FunctionSpec], options: RunOptions) -> list[FunctionSpec]:
    """With one worker for each trigger, which nobody hurries. Raises UsageError for what has no terminal."""
    if options.replicas > 1 or options.worker_user is not None:
        other = "--replicas" if options.replicas > 1 else "--worker-user"
        raise UsageError(f"--debug gives one process this terminal: leave out {other}")
    return [for_debugging(function) for function in functions]


def for_debugging(function: FunctionSpec) -> FunctionSpec:
    """The function with workers that have the terminal, and may stand at a breakpoint."""
    triggers = [
        replace(
            spec,
            fields=spec.fields.model_copy(update={"num_workers": 1}),
            settings=spec.settings.unhurried() if isinstance(spec.settings, Hurrying) else spec.settings,
        )
        for spec in function.triggers
    ]
    fields = function.fields.model_copy(update={"event_timeout_seconds": 0.0})
    return replace(function, fields=fields, triggers=tuple(triggers), is_debugged=True)


def _worker_user(functions: Sequence[FunctionSpec], options: RunOptions) -> ProcessUser:
    """As whom handlers run. Raises UsageError where they can't."""
    if options.worker_user is None:
        return OURS
    user = find_user(options.worker_user)
    user.check_reach(_files_of_workers(functions))
    gain_no_privileges()
    return user


def _files_of_workers(functions: Sequence[FunctionSpec]) -> Iterator[Path]:
    yield Path(worker_room.__file__)
    sdk = importlib.util.find_spec("nuclio_sdk")
    if sdk is not None and sdk.origin:
        yield Path(sdk.origin)
    for function in functions:
        if not function.code:
            yield function.folder
            yield module_file(function.folder, function.handler_module) or function.folder


@asynccontextmanager
async def _spark_server(
    sharers: Sequence[FunctionSpec], user: ProcessUser, stopping: Stopping
) -> AsyncIterator[SparkLink]:
    """The one of this process's own that functions without a remote share."""
    server = SparkServer(sharers, user=user)
    with stopping.killing(server.kill):
        async with server:
            early = start_task(_at_an_early_stop(server.kill, stopping), "the watch over an early stop")
            try:
                yield server.link
            finally:
                await end_tasks([early])


async def _at_an_early_stop(kill: Callable[[], None], stopping: Stopping) -> None:
    """What has served nobody needn't be waited for, nor asked to end what it does."""
    await stopping.asked.wait()
    if not stopping.is_up():
        kill()


def _spark_links(
    functions: Sequence[FunctionSpec], shared: SparkLink | None
) -> Iterator[tuple[str, SparkLink]]:
    """The server of each function that has Spark, by the function's name."""
    for function in functions:
        spec = function.spark
        if spec is not None and spec.remote:
            yield function.name, SparkLink(spec.remote, spec.token, spec.conf)
        elif spec is not None and shared is not None:
            yield function.name, shared


def with_replica(function: FunctionSpec, index: int | None, count: int) -> FunctionSpec:
    """The function with triggers that know which replica they are of, where there are several, of how many.

    Others may run elsewhere: the file may say more than the `count` of this machine.
    """
    triggers = [
        replace(spec, replica_index=index, replica_count=max(count, spec.replica_count))
        for spec in function.triggers
    ]
    return replace(function, triggers=tuple(triggers))


def with_environment(function: FunctionSpec, passed: Mapping[str, str]) -> FunctionSpec:
    """The function with these variables for its handler, where it has none of its own of that name."""
    return replace(function, env={**passed, **function.env})


def _parent(functions: Sequence[FunctionSpec], options: RunOptions, stopping: Stopping) -> Callable[[], None]:
    """Stop with the supervisor, if there is one. To be called once the handlers are loaded."""
    if options.parent_fd is None:
        return lambda: None
    return SupervisorLink(options.parent_fd, stopping.with_supervisor, stop_seconds(functions)).tell_up
