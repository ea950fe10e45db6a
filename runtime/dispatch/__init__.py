"""Which records go to which worker, and what their outcomes mean."""
