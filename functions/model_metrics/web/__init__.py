"""What browsers and programs see of it: a read-only API, and a page that plots what it says."""
