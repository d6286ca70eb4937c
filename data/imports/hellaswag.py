"""HellaSwag rows: the original distribution, and HellaSwag-Pro originals and variants.

Sources: HellaSwag (arXiv 1905.07830) JSONL with ctx, endings, label; HellaSwag-Pro (arXiv 2502.11393) JSONL.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from data.errors import InputError
from data.ids import question_id, variant_id
from data.imports.answers import answer_index
from data.imports.files import RawItem
from data.imports.generic import suspicions_of
from data.imports.items import Notice, Parsed, RawRow, Refusal, shown
from data.imports.options import Options, options_from_cell
from data.records import Question, Recipe, Variant, VariantTypeKey

TYPE_OF_REPOSITORY_KEY: Final[Mapping[str, VariantTypeKey]] = {
    "problem_reparagraphing": "restatement",
    "reverse_conversion": "reverse",
    "abductive_reasoning": "causal",
    "sentence_sorting": "ordering",
    "scene_transition": "refinement",
    "negative_testing": "negation",
    "critical_thinking": "critical",
}
ABSTAIN_BEGINNING: Final = "none of the above four options are suitable"


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)


class _OriginalRow(_Row):
    ctx: str = Field(min_length=1)
    endings: list[str]
    label: int | str | None = None
    ind: int | str | None = None
    source_id: str | None = None
    activity_label: str = ""


class _ProOriginalRow(_Row):
    id: int | str
    context: str = Field(min_length=1)
    choices: list[str]
    label: int | str | None = None


class _ProVariantRow(_Row):
    id: int | str
    original_context: str = Field(min_length=1)
    original_choices: list[str]
    original_label: int | str
    perturbation_type: str
    context: str = Field(min_length=1)
    choices: list[str]
    label: int | str


def parse_original(rows: Iterable[RawItem], benchmark: str) -> Iterator[Parsed | Refusal | Notice]:
    """Labels are "0".."3", empty on the unlabelled test split."""
    yield from _each(rows, lambda row: _original(row, benchmark))


def parse_pro_original(rows: Iterable[RawItem], benchmark: str) -> Iterator[Parsed | Refusal | Notice]:
    yield from _each(rows, lambda row: _pro_original(row, benchmark))


def parse_pro_variants(rows: Iterable[RawItem], benchmark: str, now: datetime) -> Iterator[Parsed | Refusal | Notice]:
    """Each row is a variant that also contains its original question; options keep their published order."""
    yield from _each(rows, lambda row: _pro_variant(row, benchmark, now))


def _each(rows: Iterable[RawItem], parse: Callable[[RawRow], Parsed]) -> Iterator[Parsed | Refusal | Notice]:
    for row in rows:
        if not isinstance(row, RawRow):
            yield row
            continue
        try:
            yield parse(row)
        except ValidationError as exc:
            first = exc.errors()[0]
            where = ".".join(map(str, first["loc"])) or "row"
            yield Refusal(row.file, row.number, f"{where}: {first['msg']}; correct the row", shown(dict(row.values)))
        except InputError as exc:
            yield Refusal(row.file, row.number, str(exc), shown(dict(row.values)))


def _original(row: RawRow, benchmark: str) -> Parsed:
    parsed = _OriginalRow.model_validate(row.values)
    # `source_id` names the video or article, and several rows may share it.
    key = str(parsed.ind) if parsed.ind is not None else parsed.source_id or f"{Path(row.file).stem}/{row.number}"
    options = options_from_cell(parsed.endings)
    index = answer_index(parsed.label, options, "auto")
    question = _question(parsed.ctx, options, index, benchmark, key, parsed.activity_label)
    return Parsed(row.file, row.number, question, suspicions=suspicions_of(options, index))


def _pro_original(row: RawRow, benchmark: str) -> Parsed:
    parsed = _ProOriginalRow.model_validate(row.values)
    options = options_from_cell(parsed.choices)
    index = answer_index(parsed.label, options, "index0")
    question = _question(parsed.context, options, index, benchmark, str(parsed.id), "")
    return Parsed(row.file, row.number, question, suspicions=suspicions_of(options, index))


def _pro_variant(row: RawRow, benchmark: str, now: datetime) -> Parsed:
    parsed = _ProVariantRow.model_validate(row.values)
    variant_type = TYPE_OF_REPOSITORY_KEY.get(parsed.perturbation_type)
    if variant_type is None:
        known = ", ".join(TYPE_OF_REPOSITORY_KEY)
        raise InputError(f"unknown perturbation_type {shown(parsed.perturbation_type)!r}; use one of {known}")
    originals = options_from_cell(parsed.original_choices)
    original_index = answer_index(parsed.original_label, originals, "index0")
    question = _question(parsed.original_context, originals, original_index, benchmark, str(parsed.id), "")
    options = options_from_cell(parsed.choices)
    index = answer_index(parsed.label, options, "index0")
    if index is None:
        raise InputError("the label is empty, and a variant needs an answer; fill it in or remove the row")
    is_abstain = options.texts[index].strip().rstrip(".").casefold() == ABSTAIN_BEGINNING
    variant = Variant(
        variant_id=variant_id(question.question_id, variant_type, parsed.context, options.texts, index),
        question_id=question.question_id,
        variant_type=variant_type,
        context=parsed.context,
        options=options.texts,
        answer_index=index,
        is_control=variant_type == "critical" and not is_abstain,
        shuffle_seed=None,
        recipe=Recipe(backend="import", model=benchmark, prompt_version="", sampling="{}", seed=0),
        run_id=None,
        created_at=now,
    )
    return Parsed(row.file, row.number, question, variant, suspicions_of(options, index))


def _question(context: str, options: Options, index: int | None, benchmark: str, key: str, subject: str) -> Question:
    if not context.strip():
        raise InputError("the context is empty; fill it in or remove the row")
    return Question(question_id(context, options.texts, index), context, options.texts, index, benchmark, key, subject)
