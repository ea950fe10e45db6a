"""A member of a group by the protocol `consumer` (KIP-848): a pure state machine, and the I/O around it."""
