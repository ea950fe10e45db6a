"""Conditions, filters and update expressions of the v3io web API: parsed and evaluated. Pure."""
