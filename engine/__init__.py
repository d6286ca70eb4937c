"""Generation, verification and measurement: values in, values out. Never opens the store."""
