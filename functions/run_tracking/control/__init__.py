"""Events of control-events, and what has to be done outside of the database for each."""
