"""The scheduler: a thread that starts due trainings if a lead allowed it. Never promotes anything, never dies."""

import logging
import threading
from datetime import datetime, timedelta
from typing import Final

from data.errors import SagedeskError
from data.records import ModelRole
from ui.desk.context import SCHEDULE, Desk
from ui.desk.usecases.learning import train_as_before
from ui.desk.usecases.schedules import due

_TICK_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 10.0
# After a refused start (too few labels, no verifier yet), do not try again every minute.
_AFTER_REFUSAL: Final = timedelta(hours=1)

logger = logging.getLogger(__name__)


class Scheduler:
    """One thread for one desk. Call `start` once and `stop` once."""

    def __init__(self, desk: Desk, tick_s: float = _TICK_S) -> None:
        self._desk = desk
        self._tick_s = tick_s
        self._refused_at: dict[ModelRole, datetime] = {}
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="training-scheduler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Asks the thread to end and waits for the current tick, at most `timeout_s`."""
        self._is_stopped.set()
        self._thread.join(timeout_s)

    def tick(self) -> None:
        """Starts what is due and may start; what cannot start now is logged and retried after an hour."""
        now = self._desk.now()
        for one in due(self._desk, SCHEDULE):
            refused_at = self._refused_at.get(one.role)
            if not one.may_start or (refused_at is not None and now - refused_at < _AFTER_REFUSAL):
                continue
            try:
                run = train_as_before(self._desk, SCHEDULE, role=one.role)
            except SagedeskError as exc:
                self._refused_at[one.role] = now
                logger.warning("training the %s is due (%s) but cannot start: %s", one.role, one.reason, exc)
            else:
                logger.info("run %s: %s is due (%s)", run.run_id, one.role, one.reason)

    def _loop(self) -> None:
        while not self._is_stopped.wait(self._tick_s):
            try:
                self.tick()
            except Exception:  # a bug must not stop the schedule
                logger.exception("a scheduler tick failed; the scheduler continues")
