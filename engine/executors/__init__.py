"""Executors: ways to run a step over a table."""
