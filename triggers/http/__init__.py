"""The http trigger: a request is an event, and what the handler returns is the answer."""
