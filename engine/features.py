"""The feature verifier's view of an original and its variant: one row of named numbers. Refuses labels and reasons.

Three groups: outcomes of the type's contract (NaN if the type has no such check), wording (`engine.wording`), and
cosines from a frozen encoder (all NaN without one). Features use nothing but the two records.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from data.records import VARIANT_TYPE_KEYS, Question, Variant
from engine.candidate import is_abstain
from engine.embeddings import Encoder, Vectors
from engine.variant_types.table import contract_checks
from engine.verify import Pair
from engine.wording import content_stems, coverage, overlap, sentences, similarity, stems, words

FEATURES_VERSION: Final = 1
"""Incremented whenever the meaning of a feature changes under the same name."""

Features = NDArray[np.float64]

_CHECKS: Final = (
    *("text_present", "option_count", "options_distinct", "answer_in_range", "original_has_answer"),
    *("no_answer_marker", "no_option_labels", "no_stray_abstain", "no_leak", "same_script", "differs_from_original"),
    *("asks_for_reason", "context_kept", "ending_in_context", "options_are_reasons", "abstain_is_last", "one_abstain"),
    *("option_set_kept", "context_changed", "edit_bounded", "marked_as_control", "other_options_kept"),
    *("context_similarity", "context_restated", "negation_present", "original_answer_among_others"),
    *("answer_is_another", "asks_for_order", "sentences_numbered", "options_are_orders", "story_kept"),
    *("answer_restores_order", "shown_order_is_not_answer", "answer_moved", "edit_small", "asks_for_context"),
    *("original_context_is_answer", "one_original_context", "answer_not_longest", "context_in_other_words"),
)
CONTRACT_NAMES: Final = (
    *(f"check_{name}" for name in _CHECKS),
    "required_failed",
    "advisory_failed",
)
TYPE_NAMES: Final = tuple(f"type_{key}" for key in VARIANT_TYPE_KEYS)
WORD_NAMES: Final = (
    *("context_similarity", "context_coverage", "context_added", "context_removed", "context_length_change"),
    *("last_sentence_similarity", "negations_change", "numbers_change", "ends_in_question", "is_knowledge_question"),
    *("original_answer_told", "options_kept", "is_control", "answer_abstains", "option_pair_max", "answer_pair_max"),
    *("answer_like_original_answer", "original_answer_elsewhere", "original_answer_margin", "answer_in_context"),
    *("others_in_context_max", "answer_in_context_margin", "answer_in_added", "others_in_added_max"),
    *("answer_like_original_context", "others_like_original_context_max", "original_context_margin"),
    *("answer_length_ratio", "answer_place_kept"),
)
EMBEDDING_NAMES: Final = (
    *("context_cosine", "answer_context_cosine", "others_context_cosine_min", "answer_context_cosine_margin"),
    *("answer_context_cosine_rank", "option_cosine_max", "option_least_at_home", "answer_others_cosine_mean"),
    *("answer_original_answer_cosine", "original_answer_elsewhere_cosine", "original_answer_cosine_margin"),
    *("original_context_cosine_margin", "options_original_cosine_mean", "options_original_cosine_min", "told_cosine"),
)
PLAIN_NAMES: Final = TYPE_NAMES + CONTRACT_NAMES + WORD_NAMES
FEATURE_NAMES: Final = PLAIN_NAMES + EMBEDDING_NAMES

_NEGATIONS: Final = frozenset(
    ("not", "no", "never", "none", "nobody", "nothing", "without", "cannot", "unlikely", "least", "except")
)


def features(pairs: Sequence[Pair], encoder: Encoder | None) -> Features:
    """(n, len(FEATURE_NAMES)), rows in the order of `pairs`; the EMBEDDING_NAMES are NaN without an encoder.

    Answer indices must be in range: see `can_be_judged`.
    """
    if encoder is not None:
        encoder.learn(text for question, variant in pairs for text in _texts(question, variant))
    rows = [_row(question, variant, encoder) for question, variant in pairs]
    return np.array([[row.get(name, math.nan) for name in FEATURE_NAMES] for row in rows]).reshape(
        len(pairs), len(FEATURE_NAMES)
    )


def can_be_judged(question: Question, variant: Variant) -> bool:
    """Whether both have an answer among at least two options; otherwise there are no features."""
    return (
        len(variant.options) >= 2
        and 0 <= variant.answer_index < len(variant.options)
        and question.answer_index is not None
        and 0 <= question.answer_index < len(question.options)
    )


def _row(question: Question, variant: Variant, encoder: Encoder | None) -> dict[str, float]:
    row = {f"type_{key}": float(variant.variant_type == key) for key in VARIANT_TYPE_KEYS}
    row |= _contract_features(question, variant) | _context_features(question, variant)
    row |= _option_features(question, variant)
    if encoder is not None:
        row |= _embedding_features(question, variant, encoder)
    return row


def _contract_features(question: Question, variant: Variant) -> dict[str, float]:
    checks = contract_checks(question, variant)
    row = {f"check_{check.check}": float(check.holds) for check in checks}
    row["required_failed"] = sum(1.0 for check in checks if check.is_required and not check.holds)
    row["advisory_failed"] = sum(1.0 for check in checks if not check.is_required and not check.holds)
    return row


def _context_features(question: Question, variant: Variant) -> dict[str, float]:
    before, after = stems(question.context), stems(variant.context)
    added, removed = _added_words(question, variant), frozenset(before) - frozenset(after)
    last_before, last_after = _last_sentence(question.context), _last_sentence(variant.context)
    numbers_before, numbers_after = _numbers(question.context), _numbers(variant.context)
    original_answer = question.options[_answer(question)]
    return {
        "context_similarity": similarity(question.context, variant.context),
        "context_coverage": coverage(question.context, variant.context),
        "context_added": math.log1p(len(added)),
        "context_removed": math.log1p(len(removed)),
        "context_length_change": math.log((len(after) + 1) / (len(before) + 1)),
        "last_sentence_similarity": similarity(last_before, last_after),
        "negations_change": float(_negations(last_after) - _negations(last_before)),
        "numbers_change": float(len(numbers_before ^ numbers_after)),
        "ends_in_question": float(variant.context.rstrip().endswith("?")),
        "is_knowledge_question": float(question.context.rstrip().endswith("?")),
        "original_answer_told": coverage(original_answer, variant.context),
    }


def _option_features(question: Question, variant: Variant) -> dict[str, float]:
    options, answer = variant.options, variant.answer_index
    others = [option for i, option in enumerate(options) if i != answer]
    marked, original = options[answer], question.options[_answer(question)]
    pairs = {(i, j): similarity(options[i], options[j]) for i, j in combinations(range(len(options)), 2)}
    kept = [max(similarity(option, old) for old in question.options) for option in options]
    elsewhere = max(similarity(original, other) for other in others)
    in_context = [overlap(option, variant.context) for option in others]
    added = _added_words(question, variant)
    in_added = [_share_in(option, added) for option in others]
    like_context = [similarity(option, question.context) for option in others]
    marked_like_context = similarity(marked, question.context)
    return {
        "options_kept": sum(near >= 0.8 for near in kept) / len(options),
        "is_control": float(variant.is_control),
        "answer_abstains": float(is_abstain(marked)),
        "option_pair_max": max(pairs.values()),
        "answer_pair_max": max(near for pair, near in pairs.items() if answer in pair),
        "answer_like_original_answer": similarity(marked, original),
        "original_answer_elsewhere": elsewhere,
        "original_answer_margin": similarity(marked, original) - elsewhere,
        "answer_in_context": overlap(marked, variant.context),
        "others_in_context_max": max(in_context),
        "answer_in_context_margin": overlap(marked, variant.context) - max(in_context),
        "answer_in_added": _share_in(marked, added),
        "others_in_added_max": max(in_added),
        "answer_like_original_context": marked_like_context,
        "others_like_original_context_max": max(like_context),
        "original_context_margin": marked_like_context - max(like_context),
        "answer_length_ratio": math.log((len(marked) + 1) / (sum(map(len, others)) / len(others) + 1)),
        "answer_place_kept": float(answer == question.answer_index),
    }


def _embedding_features(question: Question, variant: Variant, encoder: Encoder) -> dict[str, float]:
    # The abstain option is about the other options, not the scene: its cosines would dominate every minimum.
    places = [i for i, option in enumerate(variant.options) if not is_abstain(option) or i == variant.answer_index]
    answer = places.index(variant.answer_index)
    scene = encoder.vectors([question.context, variant.context])
    new = encoder.vectors([variant.options[i] for i in places])
    old = encoder.vectors(list(question.options))
    before, after = scene
    among = _cosines(new, new)
    pairs = among[np.triu_indices(len(places), 1)]
    rest = [i for i in range(len(places)) if i != answer]
    to_context, to_original = new @ after, new @ before
    to_answer = new @ old[_answer(question)]
    nearest_old = _cosines(new, old).max(axis=1)
    at_home = [_mean(np.delete(among[i], i)) for i in range(len(places))]
    row = {
        "context_cosine": before @ after,
        "answer_context_cosine": to_context[answer],
        "others_context_cosine_min": _least(to_context[rest]),
        "answer_context_cosine_margin": to_context[answer] - _most(to_context[rest]),
        "answer_context_cosine_rank": float(np.mean(to_context[rest] < to_context[answer])) if rest else math.nan,
        "option_cosine_max": _most(pairs),
        "option_least_at_home": min(at_home),
        "answer_others_cosine_mean": at_home[answer],
        "answer_original_answer_cosine": to_answer[answer],
        "original_answer_elsewhere_cosine": _most(to_answer[rest]),
        "original_answer_cosine_margin": to_answer[answer] - _most(to_answer[rest]),
        "original_context_cosine_margin": to_original[answer] - _most(to_original[rest]),
        "options_original_cosine_mean": float(np.mean(nearest_old)),
        "options_original_cosine_min": float(np.min(nearest_old)),
        "told_cosine": after @ old[_answer(question)],
    }
    # Padding shifts a vector by about 1e-7 depending on its batch; no tree may tell batches apart.
    return {name: round(float(value), 4) for name, value in row.items()}


def _texts(question: Question, variant: Variant) -> tuple[str, ...]:
    return (question.context, variant.context, *question.options, *variant.options)


def _answer(question: Question) -> int:
    return question.answer_index if question.answer_index is not None else 0


def _cosines(one: Vectors, other: Vectors) -> Vectors:
    cosines: Vectors = one @ other.T
    return cosines


def _most(values: Vectors) -> float:
    return float(values.max()) if values.size else math.nan


def _mean(values: Vectors) -> float:
    return float(values.mean()) if values.size else math.nan


def _least(values: Vectors) -> float:
    return float(values.min()) if values.size else math.nan


def _added_words(question: Question, variant: Variant) -> frozenset[str]:
    return content_stems(variant.context) - content_stems(question.context)


def _share_in(option: str, wanted: frozenset[str]) -> float:
    given = content_stems(option)
    return len(given & wanted) / len(given) if given else 0.0


def _last_sentence(context: str) -> str:
    return (sentences(context) or ("",))[-1]


def _negations(text: str) -> int:
    return sum(word in _NEGATIONS or word.endswith("n't") for word in words(text))


def _numbers(text: str) -> frozenset[str]:
    return frozenset(word for word in words(text) if any(map(str.isdigit, word)))
