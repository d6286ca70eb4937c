"""The gate job: compares a challenger with the champion on blind labels of gate questions. Promotes nothing.

inputs/questions.parquet, variants.parquet
inputs/labels.parquet               LABEL_SCHEMA: blind labels of the part `gate` only
inputs/past_errors.parquet          variant_id: those that an earlier verifier got wrong
outputs/parts/champion, challenger  verdicts so far; a resumed run does not judge them again
outputs/champion_verdicts.parquet, challenger_verdicts.parquet
outputs/flips.parquet               items on which the two differ
outputs/gate.json                   the report; also the run's counts, without the flips
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from data.arrow import questions_from, variants_from, verdicts_from, verdicts_table
from data.errors import JobError
from data.files import write_json
from data.records import Answers, VariantId, Verdict, VerdictTarget
from engine.executors.local import LocalExecutor
from engine.jobs.folder import RunFolder
from engine.jobs.report import Reporter
from engine.jobs.settings import parsed_settings
from engine.jobs.verify import pair_up, pairs_table, registered_step
from engine.verify import Pair
from training.examples import LABEL_SCHEMA
from training.gate import GateRow, Judgements, gate
from training.gate_report import HumanAgreement, flips_as_json, flips_table, gate_report_as_json

DEFAULT_MARGIN: Final = 0.03


class GateSettings(BaseModel):
    """`champion` and `challenger` are verifier folders; on `target` the challenger has to be better.

    `margin`: how much lower balanced accuracy may be and still count as no worse.
    `batch_rows`: variants between saves; None to suit the verifier's speed.
    """

    model_config = ConfigDict(extra="forbid")

    champion: str
    challenger: str
    target: VerdictTarget = "valid"
    margin: Annotated[float, Field(gt=0, lt=0.5)] = DEFAULT_MARGIN
    human_agreement: Mapping[VerdictTarget, HumanAgreement] = Field(default_factory=dict)
    batch_rows: Annotated[int | None, Field(ge=1, le=10_000)] = None


def run(folder: RunFolder, report: Reporter) -> Mapping[str, object]:
    """Returns `gate` (the report without flips), `outcome`, `labels`, `champion_version` and `challenger_version`.

    Without labels it succeeds, and the report says that no conclusion is possible.

    Raises:
        JobError: a setting is invalid; a label is not blind, not in the gate part, a duplicate, or has no variant.
        ModelError: a verifier is missing, unsafe or cannot be loaded.
        JobCancelledError: a user stopped it; the verdicts so far are kept for a resume.
    """
    spec = folder.spec()
    settings = parsed_settings("gate-verifier", GateSettings, spec.settings)
    rows = _gate_rows(folder)
    pairs = _pairs(folder, rows)
    champion = _verdicts(folder, report, settings, pairs, "champion")
    challenger = _verdicts(folder, report, settings, pairs, "challenger")
    report.progress(len(pairs), len(pairs), "comparing")
    found = gate(
        rows,
        _probabilities(champion),
        _probabilities(challenger),
        target=settings.target,
        margin=settings.margin,
        seed=spec.seed,
        past_errors=set(folder.read_input("past_errors")["variant_id"].to_pylist()),
        human_agreement=settings.human_agreement,
    )
    content = gate_report_as_json(found.report)
    folder.write_output("flips", flips_table(found.flips))
    write_json(folder.outputs / "gate.json", {**content, "flips": flips_as_json(found.flips)})
    return {
        # Every list of runs reads a run's row, so the items, which only leads may see, stay in the folder.
        "gate": content,
        "outcome": found.report.outcome,
        "labels": len(rows),
        "champion_version": _version(champion),
        "challenger_version": _version(challenger),
    }


def _gate_rows(folder: RunFolder) -> list[GateRow]:
    rows = []
    seen: set[str] = set()
    for label in folder.read_input("labels").select(LABEL_SCHEMA.names).to_pylist():
        variant_id = label["variant_id"]
        if label["part"] != "gate" or not label["is_blind"]:
            raise JobError(
                f"gate-verifier: the label of {variant_id} is {'blind' if label['is_blind'] else 'not blind'}, in part "
                f"{label['part']!r}, but only blind labels in part 'gate' may judge a verifier; start the run again"
            )
        if variant_id in seen:
            raise JobError(f"gate-verifier: {variant_id} is labelled twice; start the run again from the desk")
        seen.add(variant_id)
        rows.append(GateRow(VariantId(variant_id), Answers(label["tc"], label["lc"], label["au"]), label["group"]))
    return rows


def _pairs(folder: RunFolder, rows: Sequence[GateRow]) -> list[Pair]:
    """The labelled variants with their questions, in the order of `rows`."""
    pairs = pair_up(questions_from(folder.read_input("questions")), variants_from(folder.read_input("variants")))
    by_id = {variant.variant_id: (question, variant) for question, variant in pairs}
    if missing := next((row.variant_id for row in rows if row.variant_id not in by_id), None):
        raise JobError(
            f"gate-verifier: labelled variant {missing} is missing from the run's inputs; start the run again"
        )
    return [by_id[row.variant_id] for row in rows]


def _verdicts(
    folder: RunFolder, report: Reporter, settings: GateSettings, pairs: Sequence[Pair], side: str
) -> list[Verdict]:
    """One verifier at a time: two language models might not fit into memory."""
    report.progress(0, len(pairs), f"opening the {side}")
    model = folder.model(settings.champion if side == "champion" else settings.challenger)
    step, batch_rows = registered_step(model, datetime.now(UTC))
    parts = LocalExecutor(settings.batch_rows or batch_rows).run(
        step,
        pairs_table(pairs),
        folder.outputs / "parts" / side,
        lambda done, total: report.progress(done, total, f"{done} of {total} gate items judged by the {side}"),
    )
    verdicts = [verdict for part in parts for verdict in verdicts_from(part)]
    folder.write_output(f"{side}_verdicts", verdicts_table(verdicts))
    return verdicts


def _probabilities(verdicts: Sequence[Verdict]) -> Judgements:
    probabilities: dict[VariantId, dict[VerdictTarget, float | None]] = {}
    for verdict in verdicts:
        probabilities.setdefault(verdict.variant_id, {})[verdict.target] = verdict.probability
    return probabilities


def _version(verdicts: Sequence[Verdict]) -> str | None:
    return verdicts[0].verifier_version if verdicts else None
