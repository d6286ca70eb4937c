"""`python -m engine.jobs RUN_DIR`: run the job that the folder describes, and write its end into it.

Exit status: 0 done, 1 failed (the reason is in result.json), 3 cancelled.
"""

import importlib
import logging
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from data.errors import JobCancelledError, JobError, SagedeskError
from engine.jobs.folder import RunFolder, RunResult
from engine.jobs.report import Reporter

JobFunction = Callable[[RunFolder, Reporter], Mapping[str, object]]

KINDS: Final[Mapping[str, str]] = {
    "import": "engine.jobs.import_questions:run",
    "generate": "engine.jobs.generate:run",
    "verify": "engine.jobs.verify:run",
    "train-verifier": "engine.jobs.train_verifier:run",
}

logger = logging.getLogger(__name__)


def job_function(kind: str) -> JobFunction:
    """Raises JobError for an unknown kind, naming the known ones."""
    try:
        module, attribute = KINDS[kind].split(":")
    except KeyError:
        raise JobError(f"unknown job kind {kind!r}; known are {', '.join(sorted(KINDS))}") from None
    function: JobFunction = getattr(importlib.import_module(module), attribute)
    return function


def run_job(folder: RunFolder) -> RunResult:
    """Run the job in this process; the result is also written to the folder, whatever happens."""
    reporter = Reporter(folder.events)
    reporter.cancel_on_sigterm()
    try:
        counts = job_function(folder.spec().kind)(folder, reporter)
        result = RunResult("done", counts, "")
    except JobCancelledError as exc:
        result = RunResult("cancelled", {}, str(exc))
    except SagedeskError as exc:
        logger.error("%s", exc)
        result = RunResult("failed", {}, str(exc))
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
