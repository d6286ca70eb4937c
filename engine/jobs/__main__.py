"""`python -m engine.jobs RUN_DIR`: run the job that the folder describes, and write its result there.

Exit status: 0 done, 1 failed (the reason is in result.json), 3 cancelled, 4 if no result could be written.
"""

import logging
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from data.errors import JobCancelledError, SagedeskError
from data.files import write_json
from engine.jobs.failures import NO_RESULT_STATUS, failure
from engine.jobs.folder import RunFolder, RunResult
from engine.jobs.kinds import job_function
from engine.jobs.report import Reporter
from engine.jobs.versions import VERSIONS_FILE, library_versions

_ROOM: Final = ".room"
_ROOM_BYTES: Final = 65_536  # so that a job that fills the disk can still report it

logger = logging.getLogger(__name__)


def run_job(folder: RunFolder) -> RunResult:
    """Run the job in this process; the result is also written to the folder, whatever happens."""
    reporter = Reporter(folder.events)
    reporter.cancel_on_sigterm()
    room = folder.path / _ROOM
    try:
        room.write_bytes(b"\0" * _ROOM_BYTES)
        job = job_function(folder.spec().kind)
        write_json(folder.outputs / VERSIONS_FILE, library_versions())
        counts = job(folder, reporter)
        result = RunResult("done", counts, "")
    except JobCancelledError as exc:
        result = RunResult("cancelled", {}, str(exc))
    except Exception as exc:  # the process boundary: nobody above can report it, so the folder must
        if isinstance(exc, SagedeskError):
            logger.error("%s", exc)
        else:
            logger.exception("the job failed")
        # a cancel goes to the whole process group, so a backend's own process may have ended because of it
        if reporter.is_cancelled and isinstance(exc, SagedeskError):
            result = RunResult("cancelled", {}, "cancelled by a user")
        else:
            result = RunResult("failed", {}, failure(exc, folder))
    finally:
        room.unlink(missing_ok=True)
        with suppress(OSError):  # a full disk, already reported by an earlier failed write
            reporter.close()
    folder.finish(result)
    return result


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m engine.jobs RUN_DIR\n")
        return 2
    try:
        result = run_job(RunFolder(Path(arguments[0]).absolute()))
    except OSError:
        logger.exception("the result cannot be written")
        return NO_RESULT_STATUS
    return {"done": 0, "failed": 1, "cancelled": 3}[result.state]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
