"""Job kinds: each is one function over a run folder, started as `python -m engine.jobs RUN_DIR`."""
