"""REST API and page: reads of runs, metrics and artifacts, and edits made by people."""
