"""A folder for the end of sys.path, with `nuclio`: processes that a handler starts anew inherit the path."""
