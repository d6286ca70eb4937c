"""Pushing variants to a real Label Studio: one import call with all tasks beside one call a task."""

import atexit
import functools
import os
import socket
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

from annotation.client import LabelStudioClient
from annotation.labels import label_config
from annotation.server import LabelStudioServer, new_credentials
from annotation.tasks import task_payload
from tests.annotation.labelling import a_question, a_variant
from tests.annotation.test_tasks import VERDICTS

NAME: Final = "pushing 1,000 tasks in one import"
BESIDE: Final = "one call each"
BAR: Final = ">= 20x"

TASKS: Final = 1000
TASKS_ONE_BY_ONE: Final = 20  # measured and scaled up


def measure(run: int) -> tuple[float, float]:
    """Seconds for all tasks, in one call and one by one; each into a project of its own."""
    client = _client()
    question = a_question()
    tasks = [
        task_payload(a_variant(question, number), question, VERDICTS, type_name="Negation", definition="definition")
        for number in range(TASKS)
    ]
    projects = [
        client.ensure_project(f"bench {run} {way}", label_config(), new_key="0123456789ab").project_id
        for way in ("one call", "many calls")
    ]

    started = time.perf_counter()
    client.import_tasks(projects[0], tasks)
    one_call_s = time.perf_counter() - started

    started = time.perf_counter()
    for task in tasks[:TASKS_ONE_BY_ONE]:
        client.import_tasks(projects[1], [task])
    many_calls_s = (time.perf_counter() - started) * TASKS / TASKS_ONE_BY_ONE
    return one_call_s, many_calls_s


@functools.cache
def _client() -> LabelStudioClient:
    """To a server that lives as long as this process."""
    default = Path(__file__).parents[2] / ".venv-label-studio" / "bin" / "python"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tempfile.TemporaryDirectory(prefix="sagedesk-bench-")
    credentials = new_credentials()
    python = Path(os.environ.get("SAGEDESK_LABEL_STUDIO_PYTHON", default))
    server = LabelStudioServer(python, Path(folder.name), port, credentials)
    server.start()
    atexit.register(folder.cleanup)
    atexit.register(server.stop)
    server.wait_ready(timeout_s=600)
    return LabelStudioClient(server.url, credentials.token, rng=Random(1))
