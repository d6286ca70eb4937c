"""`sagedesk`: the command line. stdout is the answer, stderr the talk; exit status 0 done, 1 a known error in one line,
2 bad usage. The commands themselves are in `ui.commands`."""

import sys

import typer

from data.errors import SagedeskError
from ui.commands.tree import app


def main() -> None:
    """The entry point: known errors become one line and exit status 1, everything else keeps its traceback."""
    try:
        app()
    except SagedeskError as exc:
        typer.echo(f"sagedesk: {exc}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
