"""A member of a group by the protocol `consumer` (KIP-848): the broker says who has what, in one request."""
