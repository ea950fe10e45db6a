"""`python -m headrace` is the same program as `headrace`."""

from headrace.runtime.cli.main import main

main()
