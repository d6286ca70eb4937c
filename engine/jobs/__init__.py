"""Job kinds: each is one function over a run folder, run by `python -m engine.jobs RUN_DIR`."""
