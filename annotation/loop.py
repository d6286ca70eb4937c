"""The background sync: a thread that runs it repeatedly, backs off while it fails, and never dies."""

import logging
import threading
from random import Random
from typing import Final

from annotation.sync import LabelStudioSync
from data.errors import LabelStudioError, SagedeskError

_LONGEST_WAIT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 10.0

logger = logging.getLogger(__name__)


class SyncLoop:
    """One thread for one sync. Call `start` once and `stop` once."""

    def __init__(self, sync: LabelStudioSync, interval_s: float, rng: Random | None = None) -> None:
        self._sync = sync
        self._interval_s = interval_s
        self._rng = rng or Random()  # noqa: S311 - jitter
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="label-studio-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Asks the thread to end and waits for the current run, at most `timeout_s`."""
        self._is_stopped.set()
        self._sync.hint()
        self._thread.join(timeout_s)

    def _loop(self) -> None:
        failures = 0
        while not self._is_stopped.is_set():
            self._sync.wanted.clear()  # before the run, so that a hint during it triggers another
            try:
                self._sync.run_once()
                failures = 0
            except LabelStudioError:
                failures += 1  # recorded by the sync as "stale since"
            except SagedeskError as exc:
                failures += 1
                logger.warning("sync: %s", exc)
            except Exception:  # a bug must not stop the syncing of labels
                failures += 1
                logger.exception("a sync run failed")
            self._sync.wanted.wait(self._wait_s(failures))

    def _wait_s(self, failures: int) -> float:
        if failures == 0:
            return self._interval_s
        return float(min(self._interval_s * 2**failures, _LONGEST_WAIT_S) * (0.5 + self._rng.random()))
