"""The job that compares two trained verifiers on the gate's labels, in a run folder."""

import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from data.arrow import questions_table, variants_table, verdicts_from
from data.records import Answers, TrainingLabel, VariantId, VerdictTarget
from engine.calibration import Calibration, Isotonic, Platt
from engine.jobs.__main__ import run_job
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.verifiers import open_verifier, verifier_version, write_method
from tests.engine.sample_pairs import SampleRows, sample_rows
from training.examples import labels_table
from training.feature_verifier import train
from training.gate import likelier_label
from training.jobs.gate_verifier import run

pytestmark = pytest.mark.slow

NOW = datetime(2026, 3, 1, tzinfo=UTC)
ROWS = sample_rows()
GATE_GROUPS = frozenset(sorted(set(ROWS.groups))[::3])
"""Every third question of the sample: the verifiers below have not seen them."""


def chosen(rows: SampleRows, *, is_gate: bool) -> SampleRows:
    kept = [index for index, group in enumerate(rows.groups) if (group in GATE_GROUPS) is is_gate]
    return SampleRows([rows.pairs[i] for i in kept], [rows.answers[i] for i in kept], [rows.groups[i] for i in kept])


GATE, LEARNT = chosen(ROWS, is_gate=True), chosen(ROWS, is_gate=False)


def trained(folder: Path, *, answers: Sequence[Answers] = LEARNT.answers) -> Path:
    train(LEARNT.pairs, answers, LEARNT.groups, seed=3, encoder=None).verifier.save(folder)
    return folder


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("models") / "sound")


@pytest.fixture(scope="module")
def mistaught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Learnt the opposite of what people say: wherever it is sure, it is wrong."""
    turned = [Answers(not it.tc, not it.lc, not it.au) for it in LEARNT.answers]
    return trained(tmp_path_factory.mktemp("models") / "mistaught", answers=turned)


def gate_labels(**changes: object) -> pa.Table:
    labels = [
        TrainingLabel(variant.variant_id, answers, group, "gate", "annotations", is_blind=True, labelled_at=NOW)
        for (_, variant), answers, group in zip(*GATE, strict=True)
    ]
    table = labels_table(labels)
    for name, value in changes.items():
        index = table.schema.get_field_index(name)
        table = table.set_column(index, table.schema.field(name), pa.array([value] * table.num_rows))
    return table


def run_folder(path: Path, champion: Path, challenger: Path, labels: pa.Table, **settings: object) -> RunFolder:
    past = [variant.variant_id for _, variant in GATE.pairs[:10]]
    return RunFolder.create(
        path,
        run_id="r_1",
        kind="gate-verifier",
        settings={"champion": str(champion), "challenger": str(challenger), **settings},
        seed=3,
        code_version="test",
        inputs={
            "questions": questions_table({question.question_id: question for question, _ in ROWS.pairs}.values()),
            "variants": variants_table(variant for _, variant in ROWS.pairs),
            "labels": labels,
            "past_errors": pa.table({"variant_id": pa.array(past, pa.string())}),
        },
    )


def test_a_sound_verifier_takes_the_place_of_one_that_learnt_the_opposite(
    sound: Path, mistaught: Path, tmp_path: Path
) -> None:
    folder = run_folder(tmp_path / "run", mistaught, sound, gate_labels())

    result = run_job(folder)

    assert result.error == ""
    report = json.loads((folder.outputs / "gate.json").read_text())
    assert report.pop("flips")
    assert result.counts["gate"] == report
    assert result.counts["challenger_version"] == verifier_version(sound)
    assert report["target"] == "valid"
    assert report["questions"] == len(GATE_GROUPS)
    assert report["targets"]["valid"]["is_better"], report["reasons"]
    assert report["past_errors"]["champion_wrong"] >= report["past_errors"]["challenger_wrong"]
    assert "Validity is better" in " ".join(report["reasons"])


def test_the_other_way_round_it_fails_and_says_on_what(sound: Path, mistaught: Path, tmp_path: Path) -> None:
    result = run_job(run_folder(tmp_path / "run", sound, mistaught, gate_labels()))

    gate = result.counts["gate"]
    assert isinstance(gate, dict)
    assert gate["outcome"] == "fails"
    assert any("Validity is worse" in reason for reason in gate["reasons"])


def test_flips_are_the_answers_on_which_the_two_differ(sound: Path, mistaught: Path, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", mistaught, sound, gate_labels())
    run_job(folder)

    found = {(row["variant_id"], row["target"]) for row in folder.read_output("flips").to_pylist()}

    said = []
    for model in (mistaught, sound):
        by_variant: dict[VariantId, dict[VerdictTarget, float | None]] = {}
        for verdict in open_verifier(model, encoder=None).judge(GATE.pairs, now=NOW):
            by_variant.setdefault(verdict.variant_id, {})[verdict.target] = verdict.probability
        said.append(by_variant)
    expected = {
        (variant_id, target)
        for variant_id in said[0]
        for target in get_args(VerdictTarget)
        if likelier_label(said[0][variant_id], target) != likelier_label(said[1][variant_id], target)
    }
    assert found == expected
    assert expected


def test_a_verifier_against_itself_flips_nothing_and_does_not_pass(sound: Path, tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "run", sound, sound, gate_labels())

    result = run_job(folder)

    assert result.counts["outcome"] == "fails"
    assert folder.read_output("flips").num_rows == 0


def test_the_verdicts_of_both_are_kept_with_their_calibration(sound: Path, tmp_path: Path) -> None:
    calibrated = trained(tmp_path / "calibrated")
    Calibration({"LC": Isotonic((0.0, 1.0), (0.0, 0.5))}).save(calibrated)
    folder = run_folder(tmp_path / "run", sound, calibrated, gate_labels())

    run_job(folder)

    before = list(verdicts_from(folder.read_output("champion_verdicts")))
    after = list(verdicts_from(folder.read_output("challenger_verdicts")))
    assert [one.variant_id for one in before[::4]] == [variant.variant_id for _, variant in GATE.pairs]
    assert {one.verifier_version for one in after} == {verifier_version(calibrated)}
    halved = [(b.probability, a.probability) for b, a in zip(before, after, strict=True) if b.target == "LC"]
    assert all(a == pytest.approx((b or 0) / 2) for b, a in halved)


def test_a_language_model_that_judges_validity_at_once_is_compared_with_a_feature_verifier(
    sound: Path, tiny_model_folder: Path, tmp_path: Path
) -> None:
    at_once = shutil.copytree(tiny_model_folder, tmp_path / "ira")
    write_method(at_once, "ira", base="tiny")
    Calibration({"valid": Platt(0.5, 0.0)}).save(at_once)
    folder = run_folder(tmp_path / "run", sound, at_once, gate_labels())

    result = run_job(folder)

    assert result.error == ""
    assert {one.method for one in verdicts_from(folder.read_output("challenger_verdicts"))} == {"ira"}
    gate = result.counts["gate"]
    assert isinstance(gate, dict)
    assert gate["outcome"] == "fails"
    assert gate["targets"]["valid"]["labels"] == len(GATE.pairs)
    assert gate["targets"]["TC"]["challenger"] is None
    silent = [reason for reason in gate["reasons"] if "gives no verdict on it" in reason]
    assert [reason.split(":")[0] for reason in silent] == [
        "Type consistency",
        "Label correctness",
        "Answer uniqueness",
    ]


def test_without_labels_it_ends_well_and_says_that_nothing_can_be_said(sound: Path, tmp_path: Path) -> None:
    result = run_job(run_folder(tmp_path / "run", sound, sound, gate_labels().slice(0, 0)))

    assert result.error == ""
    gate = result.counts["gate"]
    assert isinstance(gate, dict)
    assert gate["outcome"] == "cannot_say"
    assert "0 blind labels" in gate["reasons"][0]


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"part": "train"}, "part 'train'"), ({"is_blind": False}, "not blind")],
)
def test_labels_that_may_not_judge_are_refused(
    sound: Path, tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    result = run_job(run_folder(tmp_path / "run", sound, sound, gate_labels(**changes)))

    assert result.state == "failed"
    assert said in result.error


def test_one_variant_has_one_label(sound: Path, tmp_path: Path) -> None:
    twice = pa.concat_tables([gate_labels(), gate_labels().slice(0, 1)])

    result = run_job(run_folder(tmp_path / "run", sound, sound, twice))

    assert "labelled twice" in result.error


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"margin": 0.7}, "setting margin"),
        ({"target": "truth"}, "setting target"),
        ({"human_agreement": {"TC": {"share": 2, "pairs": 3}}}, "setting human_agreement"),
        ({"challenger": "/no/such/folder"}, "no verifier in"),
    ],
)
def test_a_setting_that_cannot_be_is_named(sound: Path, tmp_path: Path, settings: dict[str, object], said: str) -> None:
    wanted = {"challenger": str(sound)} | settings
    challenger = Path(str(wanted.pop("challenger")))

    result = run_job(run_folder(tmp_path / "run", sound, challenger, gate_labels(), **wanted))

    assert result.state == "failed"
    assert said in result.error


def test_a_run_that_is_stopped_and_resumed_tells_the_same(sound: Path, mistaught: Path, tmp_path: Path) -> None:
    class StopsAfter(Reporter):
        """Cancels itself with the given report of progress."""

        def stop_after(self, times: int) -> "StopsAfter":
            self._left = times
            return self

        def progress(self, done: int, total: int | None, message: str = "") -> None:
            self._left -= 1
            if self._left == 0:
                self.cancel()
            super().progress(done, total, message)

    whole = run_folder(tmp_path / "whole", mistaught, sound, gate_labels(), batch_rows=40)
    run_job(whole)
    stopped = run_folder(tmp_path / "stopped", mistaught, sound, gate_labels(), batch_rows=40)
    with pytest.raises(Exception, match="cancelled"):
        run(stopped, StopsAfter(stopped.events).stop_after(5))
    assert not (stopped.outputs / "gate.json").exists()

    result = run_job(stopped)

    assert result.error == ""
    assert (stopped.outputs / "gate.json").read_bytes() == (whole.outputs / "gate.json").read_bytes()
