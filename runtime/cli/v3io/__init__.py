"""`headrace v3io`: a local server, and hands on any web API."""
