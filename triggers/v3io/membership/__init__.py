"""Who has which shards: how a stream is shared out, and how one stays a member of its group."""
