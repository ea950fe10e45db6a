"""`python -m headrace` is the same program as `headrace`."""

from headrace.runtime.cli import main

main()
