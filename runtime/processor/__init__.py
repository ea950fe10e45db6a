"""The processes of a run: one replica, or several under a supervisor, and their admin server."""
