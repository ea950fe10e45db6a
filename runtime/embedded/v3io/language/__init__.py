"""What conditions, filters and update expressions of the v3io web API say. Pure."""
