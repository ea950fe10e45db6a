"""A function's code, as a run has it: written out where its file carries it, and watched for changes."""
