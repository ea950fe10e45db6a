"""Code that runs inside a worker process: it imports wire and the handler, no client, no parser."""
