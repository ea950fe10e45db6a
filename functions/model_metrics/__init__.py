"""Inference responses of Seldon Core 2 into a database, and how good the models are."""
