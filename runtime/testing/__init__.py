"""A handler run on records without a processor: headrace.testing."""
