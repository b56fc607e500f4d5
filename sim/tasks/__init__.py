"""Tasks: what lies on the table, where it starts, and what counts as success and failure."""
