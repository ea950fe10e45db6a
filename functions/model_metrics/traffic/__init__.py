"""Generated traffic to try model_metrics with, without any model."""
