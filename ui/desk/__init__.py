"""The application: use cases, runs and what becomes of them. Never imports streamlit, typer or starlette."""
