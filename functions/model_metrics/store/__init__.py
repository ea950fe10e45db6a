"""The database, SQLite or PostgreSQL: its tables, their migrations, and the writer."""
