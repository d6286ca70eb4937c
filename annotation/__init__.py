"""Human labels: Label Studio, the sync, the queue, decisions. Does not import `training`."""
