"""Iguazio v3io streams: shards that a consumer group shares out through an item of the stream itself."""
