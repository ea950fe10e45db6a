"""The mutants, by what they are of."""
