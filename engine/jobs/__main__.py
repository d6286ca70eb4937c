"""`python -m engine.jobs RUN_DIR`: run the job that the folder describes, and write its end into it.

Exit status: 0 done, 1 failed (the reason is in result.json), 3 cancelled.
"""

import logging
import sys
from pathlib import Path

from data.errors import JobCancelledError, SagedeskError
from engine.jobs.folder import ResultState, RunFolder, RunResult, write_json
from engine.jobs.kinds import job_function
from engine.jobs.report import Reporter
from engine.jobs.versions import VERSIONS_FILE, library_versions

logger = logging.getLogger(__name__)


def run_job(folder: RunFolder) -> RunResult:
    """Run the job in this process; the result is also written to the folder, whatever happens."""
    reporter = Reporter(folder.events)
    reporter.cancel_on_sigterm()
    try:
        job = job_function(folder.spec().kind)
        write_json(folder.outputs / VERSIONS_FILE, library_versions())
        counts = job(folder, reporter)
        result = RunResult("done", counts, "")
    except JobCancelledError as exc:
        result = RunResult("cancelled", {}, str(exc))
    except SagedeskError as exc:
        logger.error("%s", exc)
        # a cancel goes to the whole process group: the end of a backend's own process is then its effect
        state: ResultState = "cancelled" if reporter.is_cancelled else "failed"
        result = RunResult(state, {}, "cancelled by a person" if reporter.is_cancelled else str(exc))
    except ModuleNotFoundError as exc:
        logger.exception("a library is missing")
        missing = f"{exc.name} is not installed for {sys.executable}, which runs the jobs"
        result = RunResult("failed", {}, f"{missing}; install it there (docs/worker.md)")
    except MemoryError:
        logger.exception("out of memory")
        result = RunResult("failed", {}, "out of memory; use a smaller batch or model")
    except OSError as exc:
        logger.exception("input or output failed")
        result = RunResult("failed", {}, f"{exc.strerror or exc}: {exc.filename or folder.path}")
    except Exception as exc:  # the border of the process: nobody above can say it, so the folder must
        logger.exception("the job ended with a bug")
        result = RunResult("failed", {}, f"unexpected {type(exc).__name__}: {exc}; see {folder.log}")
    finally:
        reporter.close()
    folder.finish(result)
    return result


def main(arguments: list[str]) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m engine.jobs RUN_DIR\n")
        return 2
    result = run_job(RunFolder(Path(arguments[0])))
    return {"done": 0, "failed": 1, "cancelled": 3}[result.state]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
