"""Experiment tracking with Matyan's messages: clients' runs, through two topics, to a database and a page."""

from headrace.functions.extras import require_extra

require_extra("functions/run_tracking", "tracking", "msgspec")
