"""One partition in one assignment: its ledger, its buffer, its troubles. No I/O, no event loop."""
