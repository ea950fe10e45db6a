"""Migrations of the tables, one for each version. Alembic runs env.py here."""
