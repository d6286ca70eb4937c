"""A desk that has trained: models in its registry, a gate run with its flips, a generator with its comparison."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from data import ids
from data.records import ModelRole, Question, Recipe, Run, RunId, RunState, Variant, VariantId, VerdictTarget
from data.tables import models as model_rows
from data.tables.questions import QuestionTable
from data.tables.runs import RunTable
from data.tables.variants import VariantTable
from engine.jobs.folder import RunFolder
from engine.shortcuts import ShortcutAccuracies
from engine.verifier_metrics import Confusion, TargetQuality
from training.comparison_report import GeneratorComparison, GeneratorDifference, GeneratorFigures
from training.gate_report import (
    Differences,
    GateOutcome,
    GateReport,
    HumanAgreement,
    JudgedTarget,
    PastErrors,
    TargetComparison,
    gate_report_as_json,
)
from training.paired_bootstrap import Interval
from training.refresh_report import GeneratorTraining, Imitation, generator_training_as_json
from training.registry import Alias, promote, register, set_alias
from training.verifier_report import VerifierTraining, verifier_training_as_json
from ui.desk.context import Desk


def put_model(
    desk: Desk,
    name: str,
    *,
    role: ModelRole = "verifier",
    alias: Alias | None = None,
    comparison: GeneratorComparison | None = None,
) -> str:
    """Its id. The files are for show: nothing here loads them."""
    source = desk.settings.state / f"source-{name}"
    source.mkdir(parents=True, exist_ok=True)
    (source / "weights.bin").write_text(name)
    counts = verifier_training(name) if comparison is None else generator_training(name, comparison)
    origin: Mapping[str, object] = {
        "run_id": f"r_{name}",
        "seed": 7,
        "parent": None,
        "splits": {"train": 40},
        "counts": counts,
    }
    model = register(
        desk.settings.models,
        source,
        role=role,
        kind="feature" if role == "verifier" else "causal_lm",
        version=name,
        origin=origin,
    )
    with desk.store.write() as connection:
        model_rows.ModelTable(connection).put(
            model_rows.ModelRecord(model.model_id, role, model.kind, str(model.folder), origin, desk.now())
        )
    if alias == "champion":
        promote(desk.settings.models, role, model.model_id)
    elif alias is not None:
        set_alias(desk.settings.models, role, alias, model.model_id)
    return model.model_id


@dataclass(frozen=True)
class Differing:
    """A variant on which the two verifiers differ, and what people say of it."""

    context: str
    truth: bool
    challenger: bool | None
    target: str = "valid"


def put_gate_run(
    desk: Desk,
    *,
    champion: str,
    challenger: str,
    report: Mapping[str, object],
    flips: Sequence[Differing] = (),
    run_id: str = "r_gate",
) -> str:
    """A finished comparison of the two, as its job leaves it."""
    rows = [_flip_row(desk, number, one) for number, one in enumerate(flips)]
    of = {"champion_id": champion, "challenger_id": challenger, "challenger": f"/models/verifier/{challenger}"}
    folder = RunFolder(put_run(desk, run_id, kind="gate-verifier", settings=of, result={"gate": report}))
    folder.outputs.mkdir()
    schema = pa.schema(
        [("variant_id", pa.string()), ("target", pa.string())]
        + [(name, pa.bool_()) for name in ("truth", "champion", "challenger")]
    )
    folder.write_output("flips", pa.Table.from_pylist(rows, schema=schema))
    return run_id


def put_run(
    desk: Desk,
    run_id: str,
    *,
    kind: str,
    state: RunState = "done",
    settings: Mapping[str, object] | None = None,
    result: Mapping[str, object] | None = None,
    events: Sequence[Mapping[str, object]] = (),
    message: str = "",
) -> Path:
    """Its folder; events get the time of now."""
    now = desk.now()
    folder = desk.settings.runs / run_id
    folder.mkdir(parents=True)
    stamped = ({"at": now.isoformat(), **event} for event in events)
    (folder / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in stamped))
    run = Run(
        RunId(run_id),
        kind,
        state,
        str(folder),
        settings or {},
        "lea",
        now,
        now,
        None,
        None,
        None,
        3,
        9,
        message,
        result or {},
    )
    with desk.store.write() as connection:
        RunTable(connection).add(run)
    return folder


def gate_report(outcome: GateOutcome, *, reasons: Sequence[str] = (), labels: int = 120) -> Mapping[str, object]:
    """As the gate run leaves it: the challenger is better on validity, and worse on type consistency if it fails."""
    better = Interval(0.041, 0.012, 0.07)
    of_tc = Interval(-0.052, -0.101, -0.004) if outcome == "fails" else Interval(0.003, -0.02, 0.026)
    report = GateReport(
        outcome=outcome,
        reasons=tuple(reasons),
        target="valid",
        labels=labels,
        questions=30,
        margin=0.03,
        targets={
            "valid": _compared("valid", 0.71, better, labels=labels),
            "TC": _compared("TC", 0.81, of_tc, labels=labels),
        },
        past_errors=PastErrors(12, 9, 4),
    )
    return gate_report_as_json(report)


def _compared(target: VerdictTarget, accuracy: float, difference: Interval, *, labels: int) -> TargetComparison:
    def judged(accuracy: float) -> JudgedTarget:
        return JudgedTarget(
            target=target,
            n=labels,
            base_rate=0.575,
            balanced_accuracy=accuracy,
            roc_auc=accuracy + 0.05,
            fail_pr_auc=None,
            ece=0.08,
            majority_balanced_accuracy=0.5,
            majority_fail_pr_auc=0.425,
            confusion=Confusion(true_yes=60, false_yes=11, true_no=40, false_no=9),
            kappa=accuracy - 0.2,
        )

    return TargetComparison(
        labels=labels,
        questions=30,
        yes=labels * 23 // 40,
        unjudged=3,
        champion=judged(accuracy),
        challenger=judged(accuracy + difference.mean),
        difference=Differences(difference, None, None),
        is_non_inferior=difference.low > -0.03,
        is_better=difference.low > 0,
        human_agreement=HumanAgreement(0.84, 0.62, 25),
        is_at_human_agreement=False,
    )


def verifier_training(version: str) -> Mapping[str, object]:
    """As the training of a feature verifier leaves it, with figures on one dimension alone."""
    quality = TargetQuality("AU", 91, 0.8, 0.6213, 0.7, 0.41, 0.06, 0.5, 0.2)
    training = VerifierTraining(
        variants=91, groups=40, targets={"AU": quality}, types={}, verifier_version=version, with_embeddings=False
    )
    return verifier_training_as_json(training)


def generator_training(version: str, comparison: GeneratorComparison) -> Mapping[str, object]:
    """As the training of a generator leaves it, by imitation and with this comparison."""
    training = GeneratorTraining(
        generator_version=version,
        steps=0,
        stop_reason="",
        comparison=comparison,
        sft=Imitation(20, None, 10, 0, rows=9, validation_rows=0),
    )
    return generator_training_as_json(training)


def comparison_report() -> GeneratorComparison:
    """As `training.comparison` makes it, of all types and of two, one of which nothing passed before."""

    def side(passed: int, accepted: int) -> GeneratorFigures:
        return GeneratorFigures(
            requested=40,
            parsed=36,
            contract_passed=passed,
            accepted=accepted,
            generated_tokens=4_000,
            contract_pass_rate=passed / 40,
            accepted_per_1000_tokens=accepted / 4,
            distinct_1=0.41 if passed else None,
            distinct_2=0.83 if passed else None,
            distinct_3=0.94 if passed else None,
            self_similarity=None,
            opening_entropy=0.9 if passed else None,
            shortcuts=ShortcutAccuracies(passed, 0.25, 0.3, 0.26, 0.31) if passed else None,
        )

    rise = Interval(0.35, 0.22, 0.48)
    return GeneratorComparison(
        before_model="base",
        after_model="tuned",
        judge="feature-judge-1",
        questions=20,
        per_question=2,
        before={"all": side(2, 1), "negation": side(2, 1), "causal": side(0, 0)},
        after={"all": side(16, 9), "negation": side(20, 12), "causal": side(12, 6)},
        difference={
            "all": GeneratorDifference(rise, rise),
            "negation": GeneratorDifference(rise, None),
            "causal": GeneratorDifference(rise, None),
        },
    )


def _flip_row(desk: Desk, number: int, one: Differing) -> Mapping[str, object]:
    options = (f"takes bread {number} out.", "sells the oven.")
    question = Question(ids.question_id(one.context, options, 0), one.context, options, 0, "bench", f"row {number}", "")
    changed = f"{one.context} will not"
    variant = Variant(
        VariantId(ids.variant_id(question.question_id, "negation", changed, options, 1)),
        question.question_id,
        "negation",
        changed,
        options,
        1,
        is_control=False,
        shuffle_seed=None,
        recipe=Recipe("rules", "rules", "1", "{}", 1),
        run_id=None,
        created_at=desk.now(),
    )
    with desk.store.write() as connection:
        QuestionTable(connection).upsert([question], now=desk.now())
        VariantTable(connection).upsert([variant])
    is_right = one.challenger == one.truth
    champion = not one.truth if is_right else one.truth
    return {
        "variant_id": variant.variant_id,
        "target": one.target,
        "truth": one.truth,
        "champion": champion,
        "challenger": one.challenger,
    }
