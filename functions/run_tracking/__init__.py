"""Experiment tracking: what clients say of their runs, through two topics into a database and onto a page."""
