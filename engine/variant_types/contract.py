"""The checks that all variant types share. Refuses what needs a reader: whether an answer is correct.

Each targets a defect found in the published rows (HellaSwag-Pro, arXiv 2502.11393) or in replies of small models.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from data.ids import normal_form
from data.records import Question
from engine.candidate import Candidate, is_abstain
from engine.wording import overlap, script, similarity, words

LEAK_WORDS: Final = 3
"""A shorter answer ("red", "in France") may occur in a context by chance, so its leak is only a warning."""

_CLOSING_QUESTION: Final = 400
_ANSWER_MARKER: Final = re.compile(r"\b(?:correct|right) (?:choice|answer|option)\b|\banswer\s*:", re.IGNORECASE)
_OPTION_LABEL: Final = re.compile(r"\s*(?:\(?[a-j1-9][.):]|option [a-j1-9]\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The result of one check; `detail` says what was compared."""

    check: str
    holds: bool
    is_required: bool
    detail: str


def required(check: str, holds: bool, detail: str) -> CheckOutcome:
    return CheckOutcome(check, holds, True, detail)


def advisory(check: str, holds: bool, detail: str) -> CheckOutcome:
    return CheckOutcome(check, holds, False, detail)


def common_checks(
    question: Question, candidate: Candidate, *, option_count: int, allows_abstain: bool
) -> tuple[CheckOutcome, ...]:
    """Form of the options, answer index, markers, leaks, script, and that anything changed at all."""
    options = candidate.options
    blank = [i for i, option in enumerate(options) if not option.strip()]
    in_range = 0 <= candidate.answer_index < len(options)
    return (
        required("text_present", bool(candidate.context.strip()) and not blank, _text_present(candidate, blank)),
        required("option_count", len(options) == option_count, f"{len(options)} options, {option_count} expected"),
        _options_distinct(options),
        required(
            "answer_in_range", in_range, f"answer index {candidate.answer_index} (from 0), {len(options)} options"
        ),
        required(
            "original_has_answer",
            question.answer_index is not None,
            "the original needs a known answer to keep or change",
        ),
        _no_answer_marker(question, candidate),
        _no_option_labels(question, candidate),
        _no_stray_abstain(question, candidate, allows_abstain=allows_abstain),
        _no_leak(question, candidate) if in_range else required("no_leak", False, "there is no answer to look for"),
        _same_script(question, candidate),
        _differs(question, candidate),
    )


def stays_near(
    check: str, question: Question, candidate: Candidate, *, least_similarity: float, least_content: float
) -> CheckOutcome:
    """The context keeps the original's wording and content words; function words alone make any two texts similar."""
    near = similarity(question.context, candidate.context)
    kept = overlap(question.context, candidate.context)
    return required(
        check,
        near >= least_similarity and kept >= least_content,
        f"stem similarity of the contexts {near:.2f}, at least {least_similarity} required; "
        f"{kept:.0%} of the content-word stems kept, at least {least_content:.0%} required",
    )


def asks(pattern: re.Pattern[str], context: str) -> bool:
    """Whether the end of `context`, its closing question, matches; the rest is not searched."""
    return pattern.search(context[-_CLOSING_QUESTION:]) is not None


def quoted(text: str, *, most: int = 60) -> str:
    """`text` quoted for a check's detail, at most `most` characters."""
    return repr(text if len(text) <= most else text[: most - 1] + "…")


def _text_present(candidate: Candidate, blank: Sequence[int]) -> str:
    if not candidate.context.strip():
        return "the context is blank"
    return f"blank option {', '.join(map(str, blank))}" if blank else "the context and all options have text"


def _options_distinct(options: Sequence[str]) -> CheckOutcome:
    forms = [normal_form(option).rstrip(". ") or option for option in options]
    twice = next((option for option, form in zip(options, forms, strict=True) if forms.count(form) > 1), None)
    detail = "compared in normal form, ignoring the full stop"
    return required(
        "options_distinct", twice is None, detail if twice is None else f"{quoted(twice)} occurs twice; {detail}"
    )


def _no_answer_marker(question: Question, candidate: Candidate) -> CheckOutcome:
    found = _ANSWER_MARKER.search(candidate.context)
    stray = found is not None and _ANSWER_MARKER.search(question.context) is None
    detail = f"the context says {found.group(0)!r}" if found else "the context does not mark a choice as correct"
    return required("no_answer_marker", not stray, detail)


def _no_option_labels(question: Question, candidate: Candidate) -> CheckOutcome:
    labelled = bool(candidate.options) and all(_OPTION_LABEL.match(option) for option in candidate.options)
    stray = labelled and not all(_OPTION_LABEL.match(option) for option in question.options)
    return required(
        "no_option_labels", not stray, "every option starts with a label" if labelled else "the options have no labels"
    )


def _no_stray_abstain(question: Question, candidate: Candidate, *, allows_abstain: bool) -> CheckOutcome:
    has_abstain = any(map(is_abstain, candidate.options))
    holds = allows_abstain or not has_abstain or any(map(is_abstain, question.options))
    return required(
        "no_stray_abstain", holds, "there is an abstain option" if has_abstain else "there is no abstain option"
    )


def _no_leak(question: Question, candidate: Candidate) -> CheckOutcome:
    answer = words(candidate.options[candidate.answer_index])
    leaked = _contains(words(candidate.context), answer) and not _contains(words(question.context), answer)
    detail = "the context contains the answer's text" if leaked else "the context does not contain the answer's text"
    return CheckOutcome("no_leak", not leaked, len(answer) >= LEAK_WORDS, f"{detail}; compared word by word")


def _same_script(question: Question, candidate: Candidate) -> CheckOutcome:
    before, after = script(question.context), script(candidate.context)
    detail = f"{before or 'no letters'} before, {after or 'no letters'} after"
    return required("same_script", not before or not after or before == after, detail)


def _differs(question: Question, candidate: Candidate) -> CheckOutcome:
    same_context = normal_form(question.context) == normal_form(candidate.context)
    same_options = sorted(map(normal_form, question.options)) == sorted(map(normal_form, candidate.options))
    detail = f"context {'same' if same_context else 'changed'}, options {'same' if same_options else 'changed'}"
    return required("differs_from_original", not (same_context and same_options), f"{detail}; compared in normal form")


def _contains(whole: Sequence[str], part: Sequence[str]) -> bool:
    return len(part) > 0 and f" {' '.join(part)} " in f" {' '.join(whole)} "
