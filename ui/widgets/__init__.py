"""Pieces of pages: literal text, the answer panel, heads, empty states, tables and charts. They call no use case."""
