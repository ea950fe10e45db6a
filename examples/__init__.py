"""Functions to read and to copy: `headrace new NAME --example`."""
