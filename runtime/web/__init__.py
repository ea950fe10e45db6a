"""HTTP servers of Headrace: limits on what clients may hold, and protection from pages of other sites."""
