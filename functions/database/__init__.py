"""A database of a ready-made function, SQLite or PostgreSQL: reached, kept up to date, waited for."""
