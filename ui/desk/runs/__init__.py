"""Runs: what is wanted, how it is supervised, and what becomes of it when it ends."""
