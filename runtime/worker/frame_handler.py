"""What a processor tells a worker, done."""

from headrace.runtime.wire import records as wire
from headrace.runtime.wire.records import FrameKind
from headrace.runtime.wire.reply import decode_taken
from headrace.runtime.worker.loop import WorkerLoop


def handle_frame(worker: WorkerLoop, kind: FrameKind, body: bytes) -> None:  # noqa: C901  # a line for each kind
    """One frame, other than START (link thread)."""
    match kind:
        case FrameKind.RUN | FrameKind.CHUNK | FrameKind.SLICE:
            worker.receive(kind, body)
        case FrameKind.RECALL:
            worker.inbox.recall(wire.decode_lane_id(body))
        case FrameKind.LANE:
            worker.add_lane(**wire.decode_json(body))
        case FrameKind.FORGET:
            worker.forget_lane(wire.decode_lane_id(body))
        case FrameKind.OWNED:
            worker.acks.own(wire.decode_json(body))
        case FrameKind.CANCEL:
            worker.cancel(*wire.decode_about(body))
        case FrameKind.TAKEN:
            worker.on_taken(*decode_taken(body))
        case FrameKind.PRODUCED:
            worker.produces.on_produced(body)
        case FrameKind.DRAIN:
            worker.drain()
        case FrameKind.TERMINATE:
            worker.terminate()
        case FrameKind.STOP:
            worker.inbox.stop()
