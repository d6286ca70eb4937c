"""The desk as a server: pages and routes in one process, who is signed in, and what programs may call."""
