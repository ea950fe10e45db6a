"""Traffic to look at: what models and their users would write, without any model."""
