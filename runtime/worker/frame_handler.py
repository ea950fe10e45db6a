"""What a processor tells a worker, done."""

from headrace.runtime.wire import records as wire
from headrace.runtime.wire.records import Kind
from headrace.runtime.wire.reply import decode_taken
from headrace.runtime.worker.loop import WorkerLoop


def obey(worker: WorkerLoop, kind: Kind, body: bytes) -> None:  # noqa: C901  # a line for each kind
    """One frame, other than START (link thread)."""
    match kind:
        case Kind.RUN | Kind.CHUNK | Kind.SLICE:
            worker.receive(kind, body)
        case Kind.RECALL:
            worker.inbox.recall(wire.decode_lane_id(body))
        case Kind.LANE:
            worker.add_lane(**wire.decode_json(body))
        case Kind.FORGET:
            worker.forget_lane(wire.decode_lane_id(body))
        case Kind.OWNED:
            worker.acks.own(wire.decode_json(body))
        case Kind.CANCEL:
            worker.cancel(*wire.decode_about(body))
        case Kind.TAKEN:
            worker.on_taken(*decode_taken(body))
        case Kind.PRODUCED:
            worker.produces.on_produced(body)
        case Kind.DRAIN:
            worker.drain()
        case Kind.TERMINATE:
            worker.terminate()
        case Kind.STOP:
            worker.inbox.stop()
