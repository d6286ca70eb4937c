import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from data.arrow import contract_checks_from, contract_checks_table, questions_table, variants_table, verdicts_from
from data.errors import JobCancelledError, JobError, ModelError
from data.records import Recipe, VariantId, Verdict, VerdictMethod
from engine.calibration import Calibration, Isotonic, Platt
from engine.candidate import Candidate
from engine.executors.local import LocalExecutor
from engine.generate import variant_from_candidate
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.jobs.verify import VerdictCounts, VerifyStep, pair_up, pairs_from, pairs_table, run, verdict_counts
from engine.prompts import GenerationRequest
from engine.variant_types.table import contract_checks, contract_passes
from engine.verifiers import verifier_version, write_method
from tests.engine.sample_pairs import sample_rows
from training.feature_verifier import train

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RECIPE = Recipe("rules", "rules-1", "p", "{}", 1)


@pytest.fixture
def pairs(sample_questions):
    made = []
    for number, question in enumerate(sample_questions[:5]):
        candidate = Candidate(question.context + " Later.", question.options, question.answer_index, is_control=False)
        request = GenerationRequest(f"g{number}", question, "restatement", number)
        made.append((question, variant_from_candidate(request, candidate, recipe=RECIPE, run_id=None, now=NOW)))
    return made


def new_run(path, pairs, settings, *, checks=None, questions=None):
    inputs = {
        "questions": questions_table(questions if questions is not None else [question for question, _ in pairs]),
        "variants": variants_table([variant for _, variant in pairs]),
    }
    if checks is not None:
        inputs["contract_checks"] = contract_checks_table(checks)
    return RunFolder.create(
        path, run_id="r_test", kind="verify", settings=settings, seed=0, code_version="test", inputs=inputs
    )


class FixedVerifier:
    """Says the same of everything, and counts how often it is asked."""

    version = "fixed:1"
    method: VerdictMethod = "feature"

    def __init__(self):
        self.judged = []

    def judge(self, pairs, *, now):
        self.judged.extend(variant.variant_id for _, variant in pairs)
        return [Verdict(v.variant_id, "TC", 0.9, True, self.version, self.method, None, now) for _, v in pairs]


def test_pairs_travel_whole_through_a_table(pairs):
    pairs[0] = (replace(pairs[0][0], answer_index=None, subject="x"), pairs[0][1])

    table = pairs_table(pairs)

    assert list(pairs_from(table)) == pairs
    assert list(pairs_from(table.slice(3, 1))) == pairs[3:4]
    assert table["row_id"].to_pylist() == [variant.variant_id for _, variant in pairs]


def test_a_variant_without_its_question_is_refused(pairs):
    with pytest.raises(JobError, match=f"{pairs[1][1].variant_id} lacks its question"):
        pair_up(iter([pairs[0][0]]), iter([variant for _, variant in pairs]))


def test_a_resumed_step_judges_only_what_is_left(pairs, tmp_path):
    verifier, executor = FixedVerifier(), LocalExecutor(batch_rows=2)

    def stop_after_two(done, total):
        if done == 2:
            raise JobCancelledError("cancelled by a user")

    step = VerifyStep("1", lambda: verifier, NOW)
    with pytest.raises(JobCancelledError):
        list(executor.run(step, pairs_table(pairs), tmp_path, stop_after_two))
    parts = list(executor.run(step, pairs_table(pairs), tmp_path, lambda done, total: None))

    assert verifier.judged == [variant.variant_id for _, variant in pairs]
    assert [v.variant_id for v in verdicts_from(pa.concat_tables(parts))] == verifier.judged


def test_counts_tell_yes_no_and_unparsed_apart():
    def verdict(target, label):
        return Verdict(VariantId("v"), target, None, label, "x", "feature", None, NOW)

    verdicts = [verdict("TC", True), verdict("TC", False), verdict("TC", False), verdict("valid", None)]

    assert verdict_counts(verdicts) == {
        "TC": VerdictCounts(yes=1, no=2, unparsed=0),
        "valid": VerdictCounts(yes=0, no=0, unparsed=1),
    }


@pytest.mark.parametrize(("method", "targets"), [("era_packed", {"TC", "LC", "AU", "valid"}), ("ira", {"valid"})])
def test_a_language_model_run_leaves_verdicts_and_counts(pairs, tmp_path, tiny_model_folder, method, targets):
    folder = new_run(tmp_path / "r", pairs, {"verifier": method, "model": str(tiny_model_folder), "batch_rows": 2})

    counts: Mapping[str, Any] = run(folder, Reporter(folder.events))

    verdicts = list(verdicts_from(folder.read_output("verdicts")))
    assert {verdict.target for verdict in verdicts} == targets
    assert [v.variant_id for v in verdicts[:: len(targets)]] == [variant.variant_id for _, variant in pairs]
    assert counts["verifier_version"] == verdicts[0].verifier_version
    assert set(counts["targets"]) == targets
    assert all(sum(of_target.values()) == len(pairs) for of_target in counts["targets"].values())
    assert [event["done"] for _, event in folder.read_events() if event["kind"] == "progress"] == [0, 2, 4, 5]


def test_checks_are_made_for_the_variants_that_lack_them(pairs, tmp_path, tiny_model_folder):
    known = [check for question, variant in pairs[:3] for check in contract_checks(question, variant)]
    folder = new_run(tmp_path / "r", pairs, {"verifier": "ira", "model": str(tiny_model_folder)}, checks=known)

    counts = run(folder, Reporter(folder.events))

    made = list(contract_checks_from(folder.read_output("contract_checks")))
    assert counts["contract_passed"] == sum(contract_passes(contract_checks(*pair)) for pair in pairs)
    assert made == [check for question, variant in pairs[3:] for check in contract_checks(question, variant)]


def test_without_variants_there_is_nothing_to_verify(sample_questions, tmp_path):
    folder = new_run(tmp_path / "r", [], {"verifier": "ira"}, questions=sample_questions[:1])

    with pytest.raises(JobError, match="no variants"):
        run(folder, Reporter(folder.events))


@pytest.mark.slow
def test_a_registered_verifier_says_itself_how_it_judges(pairs, tmp_path):
    plain, halved = tmp_path / "plain", tmp_path / "halved"
    for model in (plain, halved):
        train(*sample_rows(), seed=3, encoder=None).verifier.save(model)
    Calibration({"LC": Isotonic((0.0, 1.0), (0.0, 0.5))}).save(halved)
    folder = new_run(tmp_path / "r", pairs, {"verifier": "registered", "model": str(plain)})
    counts = run(folder, Reporter(folder.events))
    before = list(verdicts_from(folder.read_output("verdicts")))
    # the same run over the folder as it is with a calibration: what the first left must not be taken for its own
    shutil.copy(halved / "calibration.json", plain)

    counts_after = run(folder, Reporter(folder.events))

    after = list(verdicts_from(folder.read_output("verdicts")))
    assert (
        counts["verifier_version"] == before[0].verifier_version == verifier_version(tmp_path / "plain").split("+")[0]
    )
    assert counts_after["verifier_version"] == verifier_version(halved) != counts["verifier_version"]
    assert {one.method for one in after} == {"feature"}
    for old, new in zip(before, after, strict=True):
        if new.target == "LC":
            assert old.probability is not None
            assert new.probability == pytest.approx(old.probability / 2)


def test_a_registered_language_model_judges_by_its_own_method(pairs, tmp_path, tiny_model_folder):
    model = shutil.copytree(tiny_model_folder, tmp_path / "ira")
    write_method(model, "ira", base="tiny")
    Calibration({"valid": Platt(0.5, 0.0)}).save(model)
    folder = new_run(tmp_path / "r", pairs, {"verifier": "registered", "model": str(model)})

    counts: Mapping[str, Any] = run(folder, Reporter(folder.events))

    verdicts = list(verdicts_from(folder.read_output("verdicts")))
    assert {(one.target, one.method) for one in verdicts} == {("valid", "ira")}
    assert counts["verifier_version"] == verifier_version(model)


def test_a_registered_verifier_must_be_named(pairs, tmp_path):
    folder = new_run(tmp_path / "r", pairs, {"verifier": "registered"})

    with pytest.raises(JobError, match="setting model"):
        run(folder, Reporter(folder.events))


def test_a_setting_that_does_not_fit_is_named(pairs, tmp_path):
    folder = new_run(tmp_path / "r", pairs, {"verifier": "oracle"})

    with pytest.raises(JobError, match="setting verifier"):
        run(folder, Reporter(folder.events))


def test_an_unsafe_model_is_refused_before_anything_is_judged(pairs, tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text("{}", "utf-8")
    (model / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    folder = new_run(tmp_path / "r", pairs, {"verifier": "era_packed", "model": str(model)})

    with pytest.raises(ModelError, match="pickle"):
        run(folder, Reporter(folder.events))
