"""The database, SQLite or PostgreSQL: its tables, statements that write and readers."""
