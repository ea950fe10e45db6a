"""Tests of handlers: what one does with records, without a broker and without processes.

    from headrace.testing import run_handler

    def test_it_greets():
        run = run_handler(greeter.handler, [b"Ada"])
        assert run.failures == []

`run_handler` takes bytes, Records or Ranges, and returns a TrialResult: an Outcome for each record, what
would be committed, log lines, messages and metrics. It raises HandlerNotLoadedError where init_context
raises. The worker's own code calls the handler and judges what it returned. What takes a processor is not
here: timeouts, kills, rebalances, the waits between attempts.
"""

from headrace.runtime.testing.results import LogLine, Outcome, Range, Record, TrialResult
from headrace.runtime.testing.run_handler import run_handler
from headrace.runtime.testing.spark import spark_server
from headrace.runtime.wire.produce import Message
from headrace.runtime.worker.handler import HandlerNotLoadedError

__all__ = [
    "HandlerNotLoadedError",
    "LogLine",
    "Message",
    "Outcome",
    "Range",
    "Record",
    "TrialResult",
    "run_handler",
    "spark_server",
]
