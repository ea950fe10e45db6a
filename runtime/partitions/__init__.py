"""One partition in one assignment: its ledger, its buffer, its failed_records. No I/O, no event loop."""
