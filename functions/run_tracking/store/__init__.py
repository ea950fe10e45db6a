"""The database, SQLite or PostgreSQL: its tables, what is written to them, what is read of them."""
