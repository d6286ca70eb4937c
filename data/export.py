"""How released variants are published: Parquet rows with their evidence, by config. Refuses people's names.

Annotators appear as `annotator-1`, `annotator-2`, ... in order of first appearance: consistent within a release, not
comparable across releases. Comments stay in the store, because they may name people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from data.arrow import QUESTION_SCHEMA, questions_table
from data.records import Answers, ContractCheck, Decision, Question, Variant, Verdict

QUESTIONS_CONFIG: Final = "questions"
ALL_CONFIG: Final = "all"

_STAMP: Final = pa.timestamp("us", tz="UTC")
_ANSWERS: Final = (("tc", pa.bool_()), ("lc", pa.bool_()), ("au", pa.bool_()))
ITEM_SCHEMA: Final = pa.schema(
    [
        ("variant_id", pa.string()),
        ("variant_type", pa.string()),
        ("context", pa.string()),
        ("options", pa.list_(pa.string())),
        ("answer_index", pa.int32()),
        ("is_control", pa.bool_()),
        ("shuffle_seed", pa.int64()),
        ("question_id", pa.string()),
        ("original_context", pa.string()),
        ("original_options", pa.list_(pa.string())),
        ("original_answer_index", pa.int32()),
        ("benchmark", pa.string()),
        ("source_key", pa.string()),
        ("subject", pa.string()),
        ("source_note", pa.string()),
        ("recipe_backend", pa.string()),
        ("recipe_model", pa.string()),
        ("recipe_prompt_version", pa.string()),
        ("recipe_sampling", pa.string()),
        ("recipe_seed", pa.int64()),
        ("run_id", pa.string()),
        ("created_at", _STAMP),
        (
            "contract_checks",
            pa.list_(pa.struct([("check", pa.string()), ("holds", pa.bool_()), ("is_required", pa.bool_())])),
        ),
        (
            "verdicts",
            pa.list_(
                pa.struct(
                    [
                        ("target", pa.string()),
                        ("probability", pa.float64()),
                        ("label", pa.bool_()),
                        ("verifier_version", pa.string()),
                        ("method", pa.string()),
                    ]
                )
            ),
        ),
        ("decision", pa.struct([*_ANSWERS, ("basis", pa.string()), ("decided_at", _STAMP)])),
        ("labels", pa.list_(pa.struct([("annotator", pa.string()), *_ANSWERS, ("is_blind", pa.bool_())]))),
    ]
)


@dataclass(frozen=True, slots=True)
class ReleaseLabel:
    """One person's current answers on one variant, as a release needs them."""

    annotator: str
    answers: Answers
    is_blind: bool


@dataclass(frozen=True, slots=True)
class ReleaseItem:
    """An accepted variant with all of its evidence."""

    variant: Variant
    question: Question
    decision: Decision
    labels: tuple[ReleaseLabel, ...]
    verdicts: tuple[Verdict, ...]
    checks: tuple[ContractCheck, ...]


def write_configs(items: Sequence[ReleaseItem], folder: Path) -> dict[str, Path]:
    """Write one `CONFIG.parquet` into `folder` per variant type present, by name, and the questions' last."""
    pseudonyms = pseudonyms_of(items)
    files: dict[str, Path] = {}
    for variant_type in sorted({item.variant.variant_type for item in items}):
        of_type = [item for item in items if item.variant.variant_type == variant_type]
        files[variant_type] = folder / f"{variant_type}.parquet"
        pq.write_table(items_table(of_type, pseudonyms), files[variant_type])
    questions = {item.question.question_id: item.question for item in items}
    table = questions_table(questions[key] for key in sorted(questions))
    files[QUESTIONS_CONFIG] = folder / f"{QUESTIONS_CONFIG}.parquet"
    pq.write_table(table.cast(QUESTION_SCHEMA), files[QUESTIONS_CONFIG])
    return files


def pseudonyms_of(items: Sequence[ReleaseItem]) -> dict[str, str]:
    """Account name to pseudonym, for the whole release."""
    names = dict.fromkeys(label.annotator for item in items for label in item.labels)
    return {name: f"annotator-{number}" for number, name in enumerate(names, start=1)}


def items_table(items: Sequence[ReleaseItem], pseudonyms: Mapping[str, str]) -> pa.Table:
    """One row per item, in order; columns of ITEM_SCHEMA."""
    return pa.Table.from_pylist([_row(item, pseudonyms) for item in items], schema=ITEM_SCHEMA)


def _row(item: ReleaseItem, pseudonyms: Mapping[str, str]) -> dict[str, object]:
    variant, question = item.variant, item.question
    return {
        "variant_id": variant.variant_id,
        "variant_type": variant.variant_type,
        "context": variant.context,
        "options": variant.options,
        "answer_index": variant.answer_index,
        "is_control": variant.is_control,
        "shuffle_seed": variant.shuffle_seed,
        "question_id": question.question_id,
        "original_context": question.context,
        "original_options": question.options,
        "original_answer_index": question.answer_index,
        "benchmark": question.benchmark,
        "source_key": question.source_key,
        "subject": question.subject,
        "source_note": question.source_note,
        "recipe_backend": variant.recipe.backend,
        "recipe_model": variant.recipe.model,
        "recipe_prompt_version": variant.recipe.prompt_version,
        "recipe_sampling": variant.recipe.sampling,
        "recipe_seed": variant.recipe.seed,
        "run_id": variant.run_id,
        "created_at": variant.created_at,
        "contract_checks": [
            {"check": check.check, "holds": check.holds, "is_required": check.is_required} for check in item.checks
        ],
        "verdicts": [
            {
                "target": verdict.target,
                "probability": verdict.probability,
                "label": verdict.label,
                "verifier_version": verdict.verifier_version,
                "method": verdict.method,
            }
            for verdict in item.verdicts
        ],
        "decision": {
            **_answers(item.decision.answers),
            "basis": item.decision.basis,
            "decided_at": item.decision.decided_at,
        },
        "labels": [
            {
                "annotator": pseudonyms[label.annotator],
                **_answers(label.answers),
                "is_blind": label.is_blind,
            }
            for label in item.labels
        ],
    }


def _answers(answers: Answers) -> dict[str, bool | None]:
    return {"tc": answers.tc, "lc": answers.lc, "au": answers.au}
