"""Spark's summaries of all runs: figures for each metric, run and experiment, as Parquet."""
