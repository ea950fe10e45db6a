"""Explicit acks on real workers without a broker: worker 0 acks what a test tells it to."""

import textwrap
from dataclasses import dataclass, replace

from worker_bench import QUICK_RETRIES, Bench, until

from headrace.runtime.config.delivery_policy import AckMode, BatchPolicy, DeliveryPolicy
from headrace.runtime.dispatch.interface import Feed
from headrace.runtime.partitions.partition import AssignedPartition

DISABLE = DeliveryPolicy(failure=QUICK_RETRIES)
ENABLE = DeliveryPolicy(AckMode.ENABLE, failure=QUICK_RETRIES)
ONLY = DeliveryPolicy(AckMode.EXPLICIT_ONLY, failure=QUICK_RETRIES)
CUMULATIVE = replace(ONLY, explicit_ack_semantics="cumulative")
BATCHES = replace(ENABLE, batch=BatchPolicy(10, 0.01))

# Worker 0 acks in the background what the test writes into the file `todo`.
OBEYS = """
import nuclio
def todo():
    return (FOLDER / "todo").read_text().splitlines() if exists("todo") else []

async def obey(context):
    done = 0
    while True:
        for line in todo()[done:]:
            verb, topic, partition, offset = line.split()
            ack = getattr(context.platform, verb)
            write(await ack(nuclio.QualifiedOffset(topic, int(partition), int(offset))), "done")
            done += 1
        await asyncio.sleep(0.002)

async def init_context(context):
    if context.worker_id == "0":
        context.user_data.obeying = asyncio.create_task(obey(context))
"""
WRITES = (
    OBEYS
    + """
async def handler(context, event):
    write(f"{event.shard_id} {event.offset}")
"""
)
# A sync handler holds the loop: here a thread acks while it runs.
OBEYS_IN_A_THREAD = OBEYS.replace("async def init_context", "async def unused") + textwrap.dedent("""
    import threading
    def init_context(context):
        if context.worker_id == "0":
            threading.Thread(target=lambda: asyncio.run(obey(context)), daemon=True).start()
    def handler(context, event):
        write(f"{event.shard_id} {event.offset}")
        if event.body == b"wait":
            wait_for("go")
    """)


async def ack(
    b: Bench, *offsets: int, partition: int = 0, topic: str = "t", verb: str = "explicit_ack"
) -> list[str]:
    """Have worker 0 ack, and the processor read it; what the calls returned."""
    before = len(b.lines("done"))
    with (b.folder / "todo").open("a") as todo:
        todo.write("".join(f"{verb} {topic} {partition} {offset}\n" for offset in offsets))
    await until(lambda: len(b.lines("done")) == before + len(offsets))
    b.dispatcher.sync_progress()
    return b.lines("done")[before:]


async def handled(b: Bench, count: int) -> None:
    """Wait until handlers have begun `count` times and nothing is in flight."""

    def is_so() -> bool:
        b.dispatcher.sync_progress()
        return len(b.lines()) >= count and not any(
            p.lane.in_flight_count for p in b.dispatcher.partitions.values()
        )

    await until(is_so)


@dataclass
class Ends(Feed):
    """A source whose partitions all end at `end`."""

    end: int

    def end_of(self, partition: AssignedPartition) -> int:
        return self.end
