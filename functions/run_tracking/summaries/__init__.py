"""What Spark makes of all runs: figures of each metric, run and experiment, as Parquet."""
