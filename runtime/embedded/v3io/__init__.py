"""A development server that answers Iguazio's v3io web API on loopback: streams, items and objects."""
