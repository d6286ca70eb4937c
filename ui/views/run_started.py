"""What every button that starts a run leads to."""

from data.records import Run
from ui.widgets.go import Place
from ui.widgets.once import Done


def run_started(run: Run) -> Done:
    """Its own page."""
    return Done(f"Run {run.run_id} is queued; follow it on the Runs page.", Place("Runs", {"run": run.run_id}))
