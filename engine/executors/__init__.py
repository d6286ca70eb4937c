"""Ways to run a step over a table."""
