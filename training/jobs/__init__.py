"""Jobs that train and that decide: one function over a run folder each, named in `engine.jobs.kinds`."""
