"""What a handler is given: events, with the SDK's types. Imports wire only."""
