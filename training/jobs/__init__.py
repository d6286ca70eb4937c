"""Jobs that train or compare models: one function over a run folder each, listed in `engine.jobs.kinds`."""
