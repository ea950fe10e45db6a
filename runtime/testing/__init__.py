"""Trials of a handler on records, without a processor: what headrace.testing is made of."""
