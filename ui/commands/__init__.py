"""The commands of `sagedesk`, one module a noun. They call use cases and print; nothing else."""
