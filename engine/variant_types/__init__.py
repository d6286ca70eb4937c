"""The seven ways to change a question: one module a type, a table of them."""
