"""A Spark pipeline that is set up by its environment: records to Parquet, totals to a table."""
