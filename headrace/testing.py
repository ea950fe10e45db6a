"""Test helpers for handlers: what one does with records, without a broker and without processes.

    from headrace.testing import run_handler

    def test_it_greets():
        run = run_handler(greeter.handler, [b"Ada"])
        assert run.failures == []

The worker's own code calls the handler and judges what it returned. What takes a processor is not here:
retries, timeouts, kills, rebalances.
"""

from headrace.runtime.handler import HandlerNotLoadedError
from headrace.runtime.handler_run import HandlerRun, LogLine, Outcome, Record
from headrace.runtime.handler_trial import run_handler

__all__ = ["HandlerNotLoadedError", "HandlerRun", "LogLine", "Outcome", "Record", "run_handler"]
