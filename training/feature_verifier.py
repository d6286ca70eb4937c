"""Trains the feature verifier; all of its figures are out of fold, split by question group.

Each dimension sees only the features that its rubric is about: with all of them, it fits the noise in 305 labels.
Calibration is Platt's sigmoid on out-of-fold scores; the figures use a sigmoid fitted without the fold being judged.
Validity is the plain product of the three: on the 214 training labels of the first verifier, over eight splits, its own
sigmoid changed nothing (with embeddings calibration error 0.097 and 0.111, Brier score 0.204 and 0.206;
without them 0.104 and 0.103, 0.199 both). `training.calibrate` fits one on held-out labels: with 75 of those,
over eight splits, calibration error 0.112 and 0.118, Brier score 0.191 and 0.183.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.dimensions import DIMENSIONS, DimensionKey
from data.errors import InputError
from data.records import VARIANT_TYPE_KEYS, Answers, VariantTypeKey, VerdictTarget
from engine.embeddings import Encoder
from engine.feature_verifier import DimensionModel, FeatureVerifier, Numbers, scaled, sigmoid, type_indices
from engine.features import (
    CONTRACT_NAMES,
    EMBEDDING_NAMES,
    FEATURE_NAMES,
    TYPE_NAMES,
    Features,
    can_be_judged,
    features,
)
from engine.verifier_metrics import Probabilities, TargetQuality, Truths, target_quality, target_truth
from engine.verify import Pair

_CONTEXT: Final = (
    *("context_similarity", "context_coverage", "context_added", "context_removed", "context_length_change"),
    *("last_sentence_similarity", "negations_change", "numbers_change", "ends_in_question", "is_knowledge_question"),
    *("is_control", "original_answer_told", "context_cosine", "told_cosine"),
)
_ANSWER: Final = (
    *("answer_like_original_answer", "answer_in_context", "answer_in_context_margin", "answer_in_added"),
    *("others_in_added_max", "answer_like_original_context", "answer_context_cosine", "answer_context_cosine_margin"),
    "answer_original_answer_cosine",
)
DIMENSION_FEATURES: Final[Mapping[DimensionKey, tuple[str, ...]]] = {
    "TC": (
        *(*TYPE_NAMES, *CONTRACT_NAMES, *_CONTEXT, *_ANSWER),
        *("options_kept", "others_in_context_max", "options_original_cosine_mean", "options_original_cosine_min"),
    ),
    "LC": (
        *(*TYPE_NAMES, *CONTRACT_NAMES, *_ANSWER),
        *("is_control", "answer_abstains", "context_similarity", "context_coverage", "context_added"),
        *("context_removed", "original_answer_elsewhere", "original_answer_margin"),
        *("others_like_original_context_max", "original_context_margin", "answer_pair_max", "answer_place_kept"),
        *("answer_length_ratio", "answer_context_cosine_rank", "answer_others_cosine_mean"),
        *("original_answer_elsewhere_cosine", "original_answer_cosine_margin", "original_context_cosine_margin"),
        *("told_cosine", "context_cosine"),
    ),
    "AU": (
        *(*TYPE_NAMES, "is_control", "required_failed", "options_kept", "option_pair_max", "answer_pair_max"),
        *("option_cosine_max", "option_least_at_home", "others_context_cosine_min", "options_original_cosine_min"),
    ),
}

_FOLDS: Final = 5
_FEWEST_GROUPS: Final = 2
_STEPS: Final = len(DIMENSIONS) + 1
_REGULARISATION: Final = 0.03
"""scikit-learn's C; between 0.01 and 0.1 the differences were smaller than those between folds."""
_PRIOR_ROWS: Final = 5.0
"""The centre and scale over all types count as this many rows of a type's own."""

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """Out-of-fold figures by target, and by type and target; `groups` are question clusters.

    `with_embeddings`: whether an encoder was at hand.
    """

    variants: int
    groups: int
    with_embeddings: bool
    targets: Mapping[VerdictTarget, TargetQuality]
    types: Mapping[VariantTypeKey, Mapping[VerdictTarget, TargetQuality]]


class TrainedVerifier(NamedTuple):
    verifier: FeatureVerifier
    report: TrainingReport


class _Fitted(NamedTuple):
    """A dimension's model, and its calibrated out-of-fold probabilities; NaN for rows without a label."""

    model: DimensionModel
    probabilities: Probabilities


def train(
    pairs: Sequence[Pair],
    answers: Sequence[Answers],
    groups: Sequence[str],
    *,
    seed: int,
    encoder: Encoder | None,
    progress: Progress = lambda _done, _total, _text: None,
) -> TrainedVerifier:
    """A verifier trained on all rows, with figures from models that had not seen the row's group.

    The same rows, seed and encoder give the same verifier. Rows that cannot be judged are left out.

    Args:
        answers: one per pair; a dimension learns from those that answer it.
        groups: one per pair, the question's cluster; rows of one group are never on both sides of a split.
        progress: (steps done, total steps, current step in words).

    Raises:
        InputError: a dimension has fewer than two groups with yes or with no.
    """
    kept = [i for i, pair in enumerate(pairs) if can_be_judged(*pair)]
    pairs, answers, groups = [pairs[i] for i in kept], [answers[i] for i in kept], [groups[i] for i in kept]
    progress(0, _STEPS, f"computing features of {len(pairs)} variants")
    rows, types = features(pairs, encoder), type_indices(pairs)
    return train_on_features(rows, types, answers, groups, seed=seed, encoder=encoder, progress=progress)


def train_on_features(
    rows: Features,
    types: NDArray[np.int_],
    answers: Sequence[Answers],
    groups: Sequence[str],
    *,
    seed: int,
    encoder: Encoder | None,
    progress: Progress = lambda _done, _total, _text: None,
) -> TrainedVerifier:
    """Like `train`, on precomputed features of variants that can all be judged.

    Args:
        rows: (n, len(FEATURE_NAMES)), made with `encoder`.
        types: (n,), as `type_indices` gives them.
    """
    folds = _folds(answers, groups, seed)
    fitted = []
    for step, dimension in enumerate(DIMENSIONS, 1):
        progress(step, _STEPS, f"training {dimension.name.lower()}")
        labels = [answer.of(dimension.key) for answer in answers]
        require_both_answers(dimension.key, labels, groups)
        fitted.append(_fit(dimension.key, rows, types, labels, folds, has_encoder=encoder is not None))
    verifier = FeatureVerifier([one.model for one in fitted], encoder=encoder)
    by_target: dict[VerdictTarget, Probabilities] = {one.model.dimension: one.probabilities for one in fitted}
    by_target["valid"] = np.prod([one.probabilities for one in fitted], axis=0)
    progress(_STEPS, _STEPS, "evaluating on unseen questions")
    return TrainedVerifier(
        verifier,
        TrainingReport(
            variants=len(answers),
            groups=len(set(groups)),
            with_embeddings=encoder is not None,
            targets=_qualities(by_target, answers, np.ones(len(answers), dtype=bool)),
            types={
                key: _qualities(by_target, answers, types == index)
                for index, key in enumerate(VARIANT_TYPE_KEYS)
                if (types == index).any()
            },
        ),
    )


def require_both_answers(target: VerdictTarget, labels: Sequence[bool | None], groups: Sequence[str]) -> None:
    """Raises InputError unless both yes and no occur in at least two question groups."""
    for answer in (True, False):
        having = {group for label, group in zip(labels, groups, strict=True) if label is answer}
        if len(having) < _FEWEST_GROUPS:
            word = "yes" if answer else "no"
            raise InputError(
                f"training a verifier: {target} is answered {word} for {len(having)} questions, but at least "
                f"{_FEWEST_GROUPS} are needed; label more variants"
            )


def _folds(answers: Sequence[Answers], groups: Sequence[str], seed: int) -> NDArray[np.int_]:
    """The fold of each row: one split for all dimensions, stratified by the first failing dimension."""
    from sklearn.model_selection import StratifiedGroupKFold

    if len(set(groups)) < _FEWEST_GROUPS:
        raise InputError("training a verifier: the labels cover fewer than two questions; label variants of others too")
    kinds = [next((d.key for d in DIMENSIONS if answer.of(d.key) is False), "valid") for answer in answers]
    folds = np.zeros(len(answers), dtype=int)
    splitter = StratifiedGroupKFold(min(_FOLDS, len(set(groups))), shuffle=True, random_state=seed)
    rarest = min(kinds.count(kind) for kind in set(kinds))
    # A stratum rarer than the folds cannot be spread over them, and scikit-learn warns about each.
    strata = kinds if rarest >= splitter.n_splits else ["all"] * len(kinds)
    for fold, (_, held_out) in enumerate(splitter.split(np.zeros(len(answers)), strata, list(groups))):
        folds[held_out] = fold
    return folds


def _fit(
    dimension: DimensionKey,
    rows: Numbers,
    types: NDArray[np.int_],
    labels: Sequence[bool | None],
    folds: NDArray[np.int_],
    *,
    has_encoder: bool,
) -> _Fitted:
    names = tuple(name for name in DIMENSION_FEATURES[dimension] if has_encoder or name not in EMBEDDING_NAMES)
    columns = rows[:, [FEATURE_NAMES.index(name) for name in names]]
    known = np.array([label is not None for label in labels])
    truths = np.array([bool(label) for label in labels])
    scores = np.full(len(labels), math.nan)
    for fold in np.unique(folds):
        seen, held_out = known & (folds != fold), known & (folds == fold)
        if truths[seen].all() or not truths[seen].any():
            scores[held_out] = 0.0  # if the other folds have only one answer, nothing can be learnt about the other
            continue
        line = _line(columns[seen], types[seen], truths[seen])
        scores[held_out] = scaled(columns[held_out], types[held_out], line.centers, line.scales) @ line.weights
        scores[held_out] += line.intercept
    probabilities = np.full(len(labels), math.nan)
    for fold in np.unique(folds):
        held_out = known & (folds == fold)
        slope, offset = _platt(scores[known & (folds != fold)], truths[known & (folds != fold)])
        probabilities[held_out] = sigmoid(slope * scores[held_out] + offset)
    line = _line(columns[known], types[known], truths[known])
    slope, offset = _platt(scores[known], truths[known])
    model = DimensionModel(dimension, names, line.centers, line.scales, line.weights, line.intercept, slope, offset)
    return _Fitted(model, probabilities)


class _Line(NamedTuple):
    centers: Numbers
    scales: Numbers
    weights: Numbers
    intercept: float


def _line(columns: Numbers, types: NDArray[np.int_], truths: Truths) -> _Line:
    """Logistic regression on columns scaled within types, with balanced answers."""
    from sklearn.linear_model import LogisticRegression

    centers, scales = _type_scales(columns, types)
    model = LogisticRegression(C=_REGULARISATION, class_weight="balanced", max_iter=1000)
    model.fit(scaled(columns, types, centers, scales), truths)
    return _Line(centers, scales, model.coef_[0].astype(float), float(model.intercept_[0]))


def _type_scales(columns: Numbers, types: NDArray[np.int_]) -> tuple[Numbers, Numbers]:
    """(types, features) each: a type's centre and scale, shrunk towards those of all types if rows are few."""
    known = ~np.isnan(columns)
    filled = np.nan_to_num(columns)
    all_rows = np.maximum(known.sum(axis=0), 1)
    center = filled.sum(axis=0) / all_rows
    variance = (((filled - center) ** 2) * known).sum(axis=0) / all_rows
    centers, scales = [], []
    for index in range(len(VARIANT_TYPE_KEYS)):
        of_type = known & (types == index)[:, np.newaxis]
        count = of_type.sum(axis=0)
        own = ((filled * of_type).sum(axis=0) + _PRIOR_ROWS * center) / (count + _PRIOR_ROWS)
        spread = (((filled - own) ** 2) * of_type).sum(axis=0)
        centers.append(own)
        scales.append(np.sqrt((spread + _PRIOR_ROWS * variance) / (count + _PRIOR_ROWS)) + 1e-6)
    return np.array(centers), np.array(scales)


def _platt(scores: Numbers, truths: Truths) -> tuple[float, float]:
    """Slope and offset; only the base rate if the scores rank no better than chance. Source: Platt (1999)."""
    from sklearn.linear_model import LogisticRegression

    base = (truths.sum() + 1) / (len(truths) + 2)
    if truths.all() or not truths.any():
        return 0.0, math.log(base / (1 - base))
    model = LogisticRegression(C=1e3, max_iter=1000).fit(scores[:, np.newaxis], truths)
    slope, offset = float(model.coef_[0][0]), float(model.intercept_[0])
    return (slope, offset) if slope > 0 else (0.0, math.log(base / (1 - base)))


def _qualities(
    by_target: Mapping[VerdictTarget, Probabilities], answers: Sequence[Answers], chosen: NDArray[np.bool_]
) -> dict[VerdictTarget, TargetQuality]:
    """Figures of each target with a label among the chosen rows."""
    qualities: dict[VerdictTarget, TargetQuality] = {}
    for target, probabilities in by_target.items():
        labels = [target_truth(answer, target) for answer in answers]
        known = chosen & np.array([label is not None for label in labels]) & ~np.isnan(probabilities)
        if known.any():
            truths = np.array([bool(label) for label in labels])
            qualities[target] = target_quality(target, truths[known], probabilities[known])
    return qualities
