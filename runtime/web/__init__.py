"""What every HTTP server of Headrace keeps: who may ask, and how much."""
