"""Training on labels: the model registry and what fills it. Does not import `annotation`."""
