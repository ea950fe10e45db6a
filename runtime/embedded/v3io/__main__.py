"""The server's process: `python -m headrace.runtime.embedded.v3io --data-dir DIR --port PORT`."""

import argparse
import asyncio
import logging
import os
import signal
import sys
from pathlib import Path

from headrace.runtime.embedded.v3io.api import AccessKey, Api, serve
from headrace.runtime.embedded.v3io.store import open_store
from headrace.runtime.errors import HeadraceError
from headrace.runtime.v3io.addresses import V3IO_KEY_VARIABLE

_CONTAINERS = ("bigdata", "projects", "users")


async def run(folder: Path, port: int, containers: list[str]) -> None:
    """Serve until SIGTERM or SIGINT. UsageError: the folder or the port can't be used."""
    ended, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    store = open_store(folder, [*_CONTAINERS, *containers])
    try:
        await serve(Api(store, AccessKey(os.environ.get(V3IO_KEY_VARIABLE, ""))), port, ended)
    finally:
        store.database.close()


def main() -> int:
    """Run the server; return the exit code. A HeadraceError is one line on stderr."""
    parser = argparse.ArgumentParser("headrace.runtime.embedded.v3io", description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True, help="where everything is kept; it exists")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--container", action="append", default=[], help="one more than the usual three")
    options = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(run(options.data_dir, options.port, options.container))
    except HeadraceError as error:
        print(error, file=sys.stderr)  # noqa: T201  # the process's last line, which its owner shows
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
