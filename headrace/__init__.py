"""Headrace: a serverless function trigger runtime for Python."""
