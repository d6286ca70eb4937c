"""Records to Arrow tables and back: the form they take between the store, run folders and releases."""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from data.records import ContractCheck, Question, QuestionId, Recipe, RunId, Variant, VariantId, Verdict

_STAMP: Final = pa.timestamp("us", tz="UTC")
_TEXTS: Final = pa.list_(pa.string())

QUESTION_SCHEMA: Final = pa.schema(
    [
        ("question_id", pa.string()),
        ("context", pa.string()),
        ("options", _TEXTS),
        ("answer_index", pa.int32()),
        ("benchmark", pa.string()),
        ("source_key", pa.string()),
        ("subject", pa.string()),
        ("source_note", pa.string()),
        ("final_answer", pa.string()),
    ]
)
VARIANT_SCHEMA: Final = pa.schema(
    [
        ("variant_id", pa.string()),
        ("question_id", pa.string()),
        ("variant_type", pa.string()),
        ("context", pa.string()),
        ("options", _TEXTS),
        ("answer_index", pa.int32()),
        ("is_control", pa.bool_()),
        ("shuffle_seed", pa.int64()),
        ("recipe_backend", pa.string()),
        ("recipe_model", pa.string()),
        ("recipe_prompt_version", pa.string()),
        ("recipe_sampling", pa.string()),
        ("recipe_seed", pa.int64()),
        ("run_id", pa.string()),
        ("created_at", _STAMP),
    ]
)
CONTRACT_CHECK_SCHEMA: Final = pa.schema(
    [
        ("variant_id", pa.string()),
        ("check", pa.string()),
        ("holds", pa.bool_()),
        ("is_required", pa.bool_()),
        ("detail", pa.string()),
    ]
)
VERDICT_SCHEMA: Final = pa.schema(
    [
        ("variant_id", pa.string()),
        ("target", pa.string()),
        ("probability", pa.float64()),
        ("label", pa.bool_()),
        ("verifier_version", pa.string()),
        ("method", pa.string()),
        ("raw", pa.string()),
        ("created_at", _STAMP),
    ]
)


def questions_table(questions: Iterable[Question]) -> pa.Table:
    """One row per question, in order; columns of QUESTION_SCHEMA."""
    return _flat_table(questions, QUESTION_SCHEMA)


def questions_from(table: pa.Table) -> Iterator[Question]:
    """Inverse of `questions_table`; extra columns are ignored."""
    for row in table.select(QUESTION_SCHEMA.names).to_pylist():
        row["question_id"] = QuestionId(row["question_id"])
        row["options"] = tuple(row["options"])
        yield Question(**row)


def variants_table(variants: Iterable[Variant]) -> pa.Table:
    """One row per variant, in order; the recipe is spread over `recipe_*` columns."""
    rows = [
        {
            **{name: getattr(variant, name) for name in VARIANT_SCHEMA.names if not name.startswith("recipe_")},
            "recipe_backend": variant.recipe.backend,
            "recipe_model": variant.recipe.model,
            "recipe_prompt_version": variant.recipe.prompt_version,
            "recipe_sampling": variant.recipe.sampling,
            "recipe_seed": variant.recipe.seed,
        }
        for variant in variants
    ]
    return pa.Table.from_pylist(rows, schema=VARIANT_SCHEMA)


def variants_from(table: pa.Table) -> Iterator[Variant]:
    """Inverse of `variants_table`; extra columns are ignored."""
    for row in table.select(VARIANT_SCHEMA.names).to_pylist():
        recipe = Recipe(
            backend=row.pop("recipe_backend"),
            model=row.pop("recipe_model"),
            prompt_version=row.pop("recipe_prompt_version"),
            sampling=row.pop("recipe_sampling"),
            seed=row.pop("recipe_seed"),
        )
        row["variant_id"] = VariantId(row["variant_id"])
        row["question_id"] = QuestionId(row["question_id"])
        row["options"] = tuple(row["options"])
        row["run_id"] = None if row["run_id"] is None else RunId(row["run_id"])
        yield Variant(recipe=recipe, **row)


def contract_checks_table(checks: Iterable[ContractCheck]) -> pa.Table:
    return _flat_table(checks, CONTRACT_CHECK_SCHEMA)


def contract_checks_from(table: pa.Table) -> Iterator[ContractCheck]:
    for row in table.select(CONTRACT_CHECK_SCHEMA.names).to_pylist():
        row["variant_id"] = VariantId(row["variant_id"])
        yield ContractCheck(**row)


def verdicts_table(verdicts: Iterable[Verdict]) -> pa.Table:
    return _flat_table(verdicts, VERDICT_SCHEMA)


def verdicts_from(table: pa.Table) -> Iterator[Verdict]:
    for row in table.select(VERDICT_SCHEMA.names).to_pylist():
        row["variant_id"] = VariantId(row["variant_id"])
        yield Verdict(**row)


def _flat_table(records: Iterable[object], schema: pa.Schema) -> pa.Table:
    rows = [{name: getattr(record, name) for name in schema.names} for record in records]
    return pa.Table.from_pylist(rows, schema=schema)
