"""Every metric that Headrace publishes, each declared once; Nuclio's names where they exist."""
