"""The seven ways to change a question: one module per type, and a table of them."""
