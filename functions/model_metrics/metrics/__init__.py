"""Quality of models: sums for each minute, computed by Spark, and the scores that follow from sums."""
