"""Readers of external formats: one module per format, each yielding parsed rows or refusals."""
