import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from data.arrow import contract_checks_from, questions_table, variants_from
from data.errors import JobCancelledError, JobError
from data.records import VARIANT_TYPE_KEYS
from engine.generate import generation_requests
from engine.jobs.folder import RunFolder
from engine.jobs.generate import GenerateSettings, requests_from, requests_table, run
from engine.jobs.report import Reporter
from engine.jobs.settings import parsed_settings

ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
ROOT = Path(__file__).parents[3]
RULES = {"backend": "rules", "types": list(VARIANT_TYPE_KEYS), "per_question": 1}


def new_run(path, questions, settings=RULES, seed=7):
    return RunFolder.create(
        path,
        run_id="r_test",
        kind="generate",
        settings=settings,
        seed=seed,
        code_version="test",
        inputs={"questions": questions_table(questions)},
    )


def start(folder):
    return subprocess.Popen([sys.executable, "-m", "engine.jobs", str(folder.path)], cwd=ROOT)


def wait_for_rows(folder, least, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done = [e["done"] for _, e in folder.read_events() if e["kind"] == "progress"]
        if done and done[-1] >= least:
            return
        assert process.poll() is None, "the job ended before it could be stopped"
        time.sleep(0.01)
    raise AssertionError("no progress within a minute")


def content_of(folder):
    return [
        replace(variant, created_at=ANY_TIME, run_id=None) for variant in variants_from(folder.read_output("variants"))
    ]


def test_a_run_leaves_variants_checks_and_yields(tmp_path, sample_questions):
    folder = new_run(tmp_path / "r", sample_questions)

    counts: Mapping[str, Any] = run(folder, Reporter(folder.events))

    variants = content_of(folder)
    checks = list(contract_checks_from(folder.read_output("contract_checks")))
    assert counts["made"] == len(variants) > 50
    assert counts["made"] == counts["passed"]
    assert counts["requested"] == counts["made"] + counts["unsupported"]
    assert {check.variant_id for check in checks} == {variant.variant_id for variant in variants}
    assert folder.read_output("malformed").num_rows == 0
    assert json.loads(json.dumps(counts)) == counts


@pytest.mark.server
def test_a_real_process_is_cancelled_killed_and_resumed_without_repeating_work(tmp_path, sample_questions):
    many = sample_questions[:30]
    settings = {**RULES, "types": ["ordering", "reverse", "critical"], "batch_rows": 1}
    folder = new_run(tmp_path / "stopped", many, settings)

    process = start(folder)
    wait_for_rows(folder, 15, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 3
    assert folder.result().state == "cancelled"
    cancelled_parts = {p.name: p.stat().st_mtime_ns for p in (folder.outputs / "parts").glob("*.parquet")}
    assert 15 <= len(cancelled_parts) < 3 * len(many)

    folder.clear_result()
    process = start(folder)
    wait_for_rows(folder, len(cancelled_parts) + 15, process)
    process.kill()
    process.wait(60)
    assert folder.result() is None
    killed_parts = {p.name: p.stat().st_mtime_ns for p in (folder.outputs / "parts").glob("*.parquet")}
    assert len(killed_parts) >= len(cancelled_parts) + 15

    assert start(folder).wait(60) == 0
    end_parts = {p.name: p.stat().st_mtime_ns for p in (folder.outputs / "parts").glob("*.parquet")}
    assert cancelled_parts.items() <= killed_parts.items() <= end_parts.items()

    whole = new_run(tmp_path / "whole", many, {**settings, "batch_rows": 500})
    run(whole, Reporter(whole.events))
    assert content_of(folder) == content_of(whole)
    assert folder.result().counts["made"] == len(content_of(whole)) > 0


def test_a_cancel_is_heard_before_the_outputs_are_written(tmp_path, sample_questions):
    folder = new_run(tmp_path / "r", sample_questions)
    report = Reporter(folder.events)
    report.cancel()

    with pytest.raises(JobCancelledError):
        run(folder, report)

    assert not folder.has_output("variants")


def test_another_seed_makes_other_variants(tmp_path, sample_questions):
    one, other = (new_run(tmp_path / str(seed), sample_questions, seed=seed) for seed in (1, 2))
    run(one, Reporter(one.events))
    run(other, Reporter(other.events))

    assert content_of(one) != content_of(other)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({**RULES, "types": []}, "types"),
        ({**RULES, "types": ["rhyme"]}, "types.0"),
        ({**RULES, "per_question": 0}, "per_question"),
        ({**RULES, "sampling": {"temperature": 9}}, "sampling.temperature"),
        ({**RULES, "colour": "red"}, "colour"),
        ({"types": ["ordering"]}, "backend"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(settings, says):
    with pytest.raises(JobError, match=says):
        parsed_settings("generate", GenerateSettings, settings)


def test_a_run_without_questions_says_so(tmp_path):
    folder = new_run(tmp_path / "r", [])

    with pytest.raises(JobError, match="no questions"):
        run(folder, Reporter(folder.events))


def test_requests_travel_whole_through_a_table(tmp_path, sample_questions):
    requests = list(generation_requests(sample_questions, ["reverse", "critical"], per_question=2, seed=1))
    pq.write_table(requests_table(requests), tmp_path / "requests.parquet")

    assert list(requests_from(pq.read_table(tmp_path / "requests.parquet"))) == requests
