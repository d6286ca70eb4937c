"""Learning from labels: the registry of models and what fills it. Blind to `annotation`."""
