"""Commands for a function that runs: they reach it by its admin server."""
