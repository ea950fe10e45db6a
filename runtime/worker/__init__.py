"""What runs inside a worker process. Imports wire and the handler, no client, no parser."""
