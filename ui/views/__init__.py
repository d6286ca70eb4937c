"""Pages of the console: each module has `render(desk)`: read, draw, call one use case a button."""
