"""The application: use cases, runs and their results. Never imports streamlit, typer or starlette."""
