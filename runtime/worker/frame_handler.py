"""Frames that a processor sends to a worker, handled: what its link thread does."""

import traceback

from headrace.runtime.processes import die
from headrace.runtime.wire.framing import FrameKind, decode_json
from headrace.runtime.wire.outcomes import decode_about
from headrace.runtime.wire.records import decode_lane_id
from headrace.runtime.wire.reply import decode_taken
from headrace.runtime.worker.link import Link
from headrace.runtime.worker.loop import WorkerLoop


def serve_link(worker: WorkerLoop, link: Link, frames: list[tuple[FrameKind, bytes]]) -> None:
    """Handle `frames`, which have arrived already, and then what comes: the link thread."""
    try:
        while True:
            for kind, body in frames:
                handle_frame(worker, kind, body)
            frames = link.receive()
    except BaseException:
        traceback.print_exc()
        die()  # a worker that can't hear is of no use


def handle_frame(worker: WorkerLoop, kind: FrameKind, body: bytes) -> None:  # noqa: C901  # a line for each kind
    """Handle one frame, other than START (link thread)."""
    match kind:
        case FrameKind.RUN | FrameKind.CHUNK | FrameKind.SLICE:
            worker.receive(kind, body)
        case FrameKind.RECALL:
            worker.inbox.recall(decode_lane_id(body))
        case FrameKind.LANE:
            worker.lanes.add(**decode_json(body))
        case FrameKind.FORGET:
            worker.forget_lane(decode_lane_id(body))
        case FrameKind.OWNED:
            worker.acks.own(decode_json(body))
        case FrameKind.CANCEL:
            worker.cancel(*decode_about(body))
        case FrameKind.TAKEN:
            worker.on_taken(*decode_taken(body))
        case FrameKind.PRODUCED:
            worker.producer.on_produced(body)
        case FrameKind.DRAIN:
            worker.drain()
        case FrameKind.TERMINATE:
            worker.terminate()
        case FrameKind.STOP:
            worker.inbox.stop()
