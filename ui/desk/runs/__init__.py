"""Runs: their submission, supervision and conclusion."""
