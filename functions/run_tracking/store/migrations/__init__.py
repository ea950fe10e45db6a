"""How the tables came to be, a step for each version. Alembic runs env.py here."""
