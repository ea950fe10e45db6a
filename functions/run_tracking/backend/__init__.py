"""What people and programs ask: runs, metrics, artifacts; and what they change."""
