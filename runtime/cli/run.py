"""`headrace run`: functions on Kafka, until they are stopped."""

import asyncio
import logging
import os
import platform
import sysconfig
from collections.abc import Iterator
from typing import Any

import click

from headrace.runtime.admin.token import TOKEN_VARIABLE
from headrace.runtime.config.function import FunctionSpec
from headrace.runtime.config.trigger import CommandSettings
from headrace.runtime.errors import ConfigError
from headrace.runtime.log import set_up_logging
from headrace.runtime.processes import keep_to_itself
from headrace.runtime.processor.loading import load_functions
from headrace.runtime.processor.option_fields import parameters
from headrace.runtime.processor.options import RunOptions, command_settings
from headrace.runtime.processor.run import run_functions
from headrace.runtime.settings.findings import HIDDEN
from headrace.runtime.settings.overrides import exposed_keys, parse_overrides
from headrace.runtime.users import ways_into_us

logger = logging.getLogger(__name__)

_OF_CLIENTS = ("spec.triggers.", "spec.outputs.")  # handlers have all that stands elsewhere


@click.command()
@parameters(RunOptions)
def run(**given: Any) -> None:
    """Run the function in PATH, a function.yaml, its folder or a handler's file, until Ctrl-C.

    Several share the embedded Kafka, one Spark server and the admin server.
    """
    keep_to_itself()  # first of all: what is read from here on may be secret
    options = RunOptions(**given).of_parent()
    command = command_settings(click.get_current_context())
    set_up_logging(options.log_level, options.log_format, options.replica_name)
    functions = _load(options, command)
    if not options.replica_name:  # the supervisor has said all of this for its replicas
        _warn_of_free_threading()
        for key in exposed_keys(options.set_texts):
            logger.warning(
                "everybody on this machine can read the value of --set %s in the list of processes: "
                "write --set '%s=${NAME}' and give it in the environment, or a file by secretPath",
                key,
                key,
            )
        if options.worker_user is None and (secret := list(_kept_from_handlers(functions))):
            _warn_of_ways(secret)
        for notice in (notice for function in functions for notice in function.notices):
            logger.info("%s", notice)
    # Not uvloop: it made no difference to the rates. The processor's time is aiokafka's and the kernel's.
    asyncio.run(_run(functions, options))


async def _run(functions: list[FunctionSpec], options: RunOptions) -> None:
    await run_functions(functions, options)
    logging.shutdown()
    # All is given back. A thread may wait on, as for a name server that is away: nobody waits for it.
    os._exit(0)


def _kept_from_handlers(functions: list[FunctionSpec]) -> Iterator[str]:
    """Yield what this process knows and doesn't give to handlers."""
    for function in functions:
        if any(it.value == HIDDEN and it.path.startswith(_OF_CLIENTS) for it in function.settings):
            yield f"the secrets of {function.name}"
    if os.environ.get(TOKEN_VARIABLE):
        yield TOKEN_VARIABLE


def _warn_of_ways(secret: list[str]) -> None:
    if ways := ways_into_us():
        logger.warning(
            "handlers can read %s in this process: they run as its user, with %s; --worker-user NAME keeps "
            "them out, and so does a container without these capabilities",
            ", ".join(secret),
            ", ".join(ways),
        )


def _warn_of_free_threading() -> None:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        logger.warning(
            "the free-threaded build of Python %s is neither supported nor tested; "
            "run Headrace with the usual build, which has a GIL",
            platform.python_version(),
        )


def _load(options: RunOptions, command: CommandSettings) -> list[FunctionSpec]:
    """Load all functions. Raises ConfigError with the problems of all files."""
    loaded = load_functions(options.paths, parse_overrides(options.set_texts, options.paths), command)
    if problems := [problem for it in loaded for problem in it.problems]:
        raise ConfigError(problems)
    return [it.function for it in loaded if it.function is not None]
