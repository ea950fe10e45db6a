"""The database of a ready-made function, SQLite or PostgreSQL: connections, migrations, reads, retries."""
