"""People's labels: Label Studio, the sync, the queue, decisions. Blind to `training`."""
