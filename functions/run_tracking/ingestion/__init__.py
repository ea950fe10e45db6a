"""Messages of data-ingestion into the database: each run's in order, and each once in effect."""
