"""A partition in one assignment: its ledger, its lane, what failed of it. No I/O, no event loop."""
