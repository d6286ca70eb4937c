"""What `sagedesk up` says and does while all runs: a Label Studio that ends, a sync that is stale, the desk's end.

Starts again what it was given; stops nothing.
"""

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

import httpx

from annotation.server import LabelStudioServer
from data.errors import SagedeskError, SetupError
from data.log_tail import last_line
from ui.commands.line import RemoteLine, running_desk
from ui.commands.up.interruptions import Interruptions
from ui.desk.settings import Settings
from ui.desk.sync_status import SyncStatus
from ui.desk.usecases.sync import sync_status

_POLL_S: Final = 0.5
_SYNC_POLL_S: Final = 10.0
_SHORT_LIFE_S: Final = 120.0
_SHORT_LIVES_AT_MOST: Final = 3

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DeskProcess:
    """`log_offset` is where this start's lines begin: earlier ones wrote into the same log."""

    process: "subprocess.Popen[bytes]"
    log: Path
    log_offset: int
    began_at: datetime

    def last_log_line(self) -> str:
        return f"{last_line(self.log, after=self.log_offset) or 'no output'} (full log: {self.log})"


class Watch:
    """What is said and done while everything runs."""

    def __init__(
        self,
        settings: Settings,
        desk: DeskProcess,
        server: LabelStudioServer | None,
        interruptions: Interruptions,
        report: Report,
    ) -> None:
        self._settings = settings
        self._desk = desk
        self._server = server
        self._interruptions = interruptions
        self._report = report
        self._server_since = time.monotonic()
        self._short_lives = 0
        self._is_stale = False
        self._sync_looked_at = 0.0

    def until_the_desk_ends(self) -> int:
        """Exit status 1: it is `sagedesk up` that ends a desk."""
        while self._desk.process.poll() is None:
            if self._server is not None and not self._server.is_running():
                self._server = self._started_again(self._server)
            if time.monotonic() - self._sync_looked_at > _SYNC_POLL_S:
                self._sync_looked_at = time.monotonic()
                self._tell_of_sync()
            time.sleep(_POLL_S)
        code = self._desk.process.returncode
        how = f"was killed by signal {-code}" if code < 0 else f"stopped with status {code}"
        self._report(f"the desk {how}: {self._desk.last_log_line()}; nothing that was saved is lost; start it again")
        return 1

    def _started_again(self, server: LabelStudioServer) -> LabelStudioServer | None:
        """Labels wait in the store meanwhile. One that ends again and again is left alone."""
        now = time.monotonic()
        self._short_lives = self._short_lives + 1 if now - self._server_since < _SHORT_LIFE_S else 1
        if self._short_lives > _SHORT_LIVES_AT_MOST:
            self._report(f"Label Studio keeps stopping (see {server.log}); the desk continues without it")
            return None
        self._report(f"Label Studio stopped (see {server.log}); restarting it, labels are saved here meanwhile")
        try:
            server.start(self._report, undisturbed=self._interruptions.deferred)
        except SetupError as exc:
            self._report(f"{exc}; the desk continues without it")
            return None
        self._server_since = now
        return server

    def _tell_of_sync(self) -> None:
        status = _sync_status(self._settings)
        if status is None:
            return
        # What an earlier start left in the store says nothing of now; the first sync of this one does.
        since = None if status.stale_since is None or status.stale_since < self._desk.began_at else status.stale_since
        if since is not None and not self._is_stale:
            self._report(
                f"Label Studio has been out of sync since {since:%H:%M} UTC: {status.last_error}; "
                f"labels are saved here and pushed once it answers"
            )
        elif since is None and self._is_stale:
            self._report("Label Studio answers again")
        self._is_stale = since is not None


def _sync_status(settings: Settings) -> SyncStatus | None:
    """As the desk tells it; None while it is too busy to say."""
    try:
        running = running_desk(settings)
        if running is None:
            return None
        with httpx.Client(timeout=5.0, trust_env=False) as client:
            return RemoteLine(running, client).call(sync_status)
    except SagedeskError:
        return None
