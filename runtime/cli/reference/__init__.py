"""Pages that are made from declarations: commands and metrics."""
