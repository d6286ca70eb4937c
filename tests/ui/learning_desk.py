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
from ui.usecases.context import Desk


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
    source.mkdir(parents=True)
    (source / "weights.bin").write_text(name)
    counts = {} if comparison is None else {"comparison": comparison}
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


def _target(
    champion: float, challenger: float, difference: Mapping[str, float], *, is_non_inferior: bool
) -> Mapping[str, object]:
    def said(accuracy: float) -> Mapping[str, object]:
        return {
            "balanced_accuracy": accuracy,
            "fail_pr_auc": None,
            "ece": 0.08,
            "confusion": {"true_yes": 60, "false_yes": 11, "true_no": 40, "false_no": 9},
        }

    return {
        "champion": said(champion),
        "challenger": said(challenger),
        "difference": {"balanced_accuracy": difference, "fail_pr_auc": None, "ece": None},
        "is_non_inferior": is_non_inferior,
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
