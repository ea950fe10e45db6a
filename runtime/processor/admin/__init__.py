"""What a run says of itself over HTTP, and who may move its partitions there."""
