"""Ready-made functions, and the modules that they are made of. README.md lists them."""
