"""The HTTP side: a read-only API, and a page that plots its answers."""
