"""`sagedesk up`: what must hold first, what is started, how it is watched, and how it is ended."""
