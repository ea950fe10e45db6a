"""A worker process: `python -m headrace.runtime.worker SOCKET_FD SLOT_FD LEASE_FD STACKS_FD`.

Started by a processor. It has two threads. The link thread reads the socket: runs, recalls, the end. The main
thread runs the user's code and nothing else, so a handler may block for as long as it likes. DESIGN.md,
"Processes and threads".
"""

import faulthandler
import gc
import os
import socket
import sys
import threading
from pathlib import Path

from headrace.runtime.processes import die_with_parent, keep_freed_memory
from headrace.runtime.wire.framing import FrameKind, frame
from headrace.runtime.wire.lease import Lease
from headrace.runtime.wire.outcomes import encode_init_failed
from headrace.runtime.wire.progress_slot import ProgressSlot
from headrace.runtime.wire.stack_dump import dump_stack_on_signal, stop_dumping
from headrace.runtime.wire.start import decode_start
from headrace.runtime.worker.api.event_loop import WorkerEventLoop
from headrace.runtime.worker.forks import ignore_signals, restore_signals_in_forks
from headrace.runtime.worker.frame_handler import serve_link
from headrace.runtime.worker.handler import HandlerNotLoadedError
from headrace.runtime.worker.link import Link
from headrace.runtime.worker.loop import WorkerLoop
from headrace.runtime.worker.output import redirect_output, restore_output
from headrace.runtime.worker.tracing import traces_of

# The link thread must get a turn soon while a handler computes: recalls and runs wait for it.
_SWITCH_INTERVAL_SECONDS = 0.001
_GARBAGE_THRESHOLD = 10_000  # more objects than a run has


def main() -> None:
    """Serve one processor until it says stop or is gone."""
    # First: a processor that dies from here on takes this process along.
    die_with_parent()
    keep_freed_memory()
    signals_before = ignore_signals()
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    faulthandler.enable(2)  # a segfault says where; sys.stderr becomes log lines
    dump_stack_on_signal(int(sys.argv[4]))
    slot = ProgressSlot.take(int(sys.argv[2]), Lease(int(sys.argv[3])))
    link = Link(socket.socket(fileno=int(sys.argv[1])), slot)
    (_, body), *others = link.receive()
    start = decode_start(body)
    redirect_output(link.send_log, start.log_level, has_terminal=start.has_terminal)
    # Called in this order: first nothing reaches the processor any more, then output goes to the real files.
    os.register_at_fork(after_in_child=link.abandon)
    os.register_at_fork(after_in_child=restore_output)
    os.register_at_fork(after_in_child=stop_dumping)
    try:
        loop = WorkerEventLoop(runs_for_sync_code=start.running_event_loop)
        worker = WorkerLoop(link.send, slot, start, loop, sends_metrics=True)
        os.register_at_fork(after_in_child=worker.abandon)
        restore_signals_in_forks(signals_before)
        threading.Thread(
            target=serve_link, args=(worker, link, others), name="headrace-link", daemon=True
        ).start()
        traces = traces_of(os.environ)
        worker.load(Path(start.folder), start.module, start.function, traces)
        traces.start()
    except HandlerNotLoadedError as error:
        link.send(encode_init_failed(str(error)))
        # At once: threads and exit hooks of a module that is half imported could keep the process.
        os._exit(1)
    # What is imported stays: a collection need not look at it, nor come after every few hundred records.
    gc.freeze()
    gc.set_threshold(_GARBAGE_THRESHOLD, *gc.get_threshold()[1:])
    link.send(frame(FrameKind.READY, bytes([worker.is_async])))
    worker.run_forever()
    traces.close()


if __name__ == "__main__":
    main()
