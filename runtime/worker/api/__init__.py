"""The interface of a handler: context, events, acks, messages, metrics, and the SDK's types."""
