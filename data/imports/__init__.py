"""Readers of outside formats: one module a format, each yields parsed rows or refusals."""
