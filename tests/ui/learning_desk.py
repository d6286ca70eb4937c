"""A desk that has trained: models in its registry, a gate run with its flips, a generator with its comparison."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from data import ids
from data.records import Question, Recipe, Run, RunId, RunState, Variant, VariantId
from data.tables import models as model_rows
from data.tables.questions import QuestionTable
from data.tables.runs import RunTable
from data.tables.variants import VariantTable
from engine.jobs.folder import RunFolder
from training.registry import Alias, ModelRole, promote, register, set_alias
from ui.desk.context import Desk


def put_model(
    desk: Desk,
    name: str,
    *,
    role: ModelRole = "verifier",
    alias: Alias | None = None,
    comparison: Mapping[str, object] | None = None,
) -> str:
    """Its id. The files are for show: nothing here loads them."""
    source = desk.settings.state / f"source-{name}"
    source.mkdir(parents=True, exist_ok=True)
    (source / "weights.bin").write_text(name)
    counts = (
        {"targets": {"AU": {"n": 91, "balanced_accuracy": 0.6213}}}
        if comparison is None
        else {"comparison": comparison}
    )
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
            model_rows.RegisteredModel(model.model_id, role, model.kind, str(model.folder), origin, desk.now())
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


def gate_report(outcome: str, *, reasons: Sequence[str] = (), labels: int = 120) -> Mapping[str, object]:
    """As `training.gate` writes it, with one dimension in which the challenger is worse."""
    interval = {"mean": 0.041, "low": 0.012, "high": 0.07}
    worse = {"mean": -0.052, "low": -0.101, "high": -0.004}
    return {
        "outcome": outcome,
        "reasons": list(reasons),
        "target": "valid",
        "labels": labels,
        "questions": 30,
        "margin": 0.03,
        "targets": {
            "valid": _target(0.71, 0.75, interval, is_non_inferior=True),
            "TC": _target(0.81, 0.76, worse, is_non_inferior=False),
        },
        "past_errors": {"count": 12, "champion_wrong": 9, "challenger_wrong": 4},
        "flips": [],
    }


def comparison_report() -> Mapping[str, object]:
    """As `training.comparison` writes it, of all types and of two, one of which nothing passed before."""

    def side(passed: int, accepted: int) -> Mapping[str, object]:
        return {
            "requested": 40,
            "parsed": 36,
            "contract_passed": passed,
            "accepted": accepted,
            "generated_tokens": 4_000,
            "contract_pass_rate": passed / 40,
            "accepted_per_1000_tokens": accepted / 4,
            "distinct_1": 0.41 if passed else None,
            "distinct_2": 0.83 if passed else None,
            "distinct_3": 0.94 if passed else None,
            "self_similarity": None,
            "opening_entropy": 0.9 if passed else None,
            "shortcuts": {"variants": passed, "chance": 0.25, "always_first": 0.3, "longest_option": 0.26}
            | {"most_overlap": 0.31}
            if passed
            else None,
        }

    rise = {"mean": 0.35, "low": 0.22, "high": 0.48}
    return {
        "before_model": "base",
        "after_model": "tuned",
        "judge": "feature-judge-1",
        "questions": 20,
        "per_question": 2,
        "before": {"all": side(2, 1), "negation": side(2, 1), "causal": side(0, 0)},
        "after": {"all": side(16, 9), "negation": side(20, 12), "causal": side(12, 6)},
        "difference": {
            "all": {"contract_pass_rate": rise, "accepted_per_1000_tokens": rise},
            "negation": {"contract_pass_rate": rise, "accepted_per_1000_tokens": None},
            "causal": {"contract_pass_rate": rise, "accepted_per_1000_tokens": None},
        },
    }


def _target(
    champion: float, challenger: float, difference: Mapping[str, float], *, is_non_inferior: bool
) -> Mapping[str, object]:
    def said(accuracy: float) -> Mapping[str, object]:
        return {
            "balanced_accuracy": accuracy,
            "fail_pr_auc": None,
            "ece": 0.08,
            "confusion": {"true_yes": 60, "false_yes": 11, "true_no": 40, "false_no": 9},
            "kappa": accuracy - 0.2,
        }

    return {
        "labels": 120,
        "questions": 30,
        "yes": 69,
        "unjudged": 3,
        "champion": said(champion),
        "challenger": said(challenger),
        "difference": {"balanced_accuracy": difference, "fail_pr_auc": None, "ece": None},
        "is_non_inferior": is_non_inferior,
        "is_better": is_non_inferior,
        "is_at_human_agreement": False,
        "human_agreement": {"share": 0.84, "kappa": 0.62, "pairs": 25},
    }


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
