"""The database, SQLite or PostgreSQL: its tables, how they came to be, and how rows get in."""
