"""The feature verifier's stages: how it learns with more labels, and whether the queue's order of labels helps.

Every verifier is trained as the desk trains it, with Platt's sigmoid from its own labels out of fold and no labels
kept aside. The queue is the desk's own rule: the blind share at a place drawn from the id, the rest by how near the
verifier of the round is to one half on any dimension.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from annotation.queue import is_drawn_blind, priority_and_reason
from data.ids import row_seed
from data.tables.queue import QueueCandidate
from engine.embeddings import Encoder
from engine.feature_verifier import FeatureVerifier
from engine.features import FEATURE_NAMES
from engine.verifier_metrics import target_truth
from tests.bench.learning.stages import Stage
from tests.bench.learning.verifier_figures import TARGETS, Judgements, differences, figures, said_by
from tests.bench.learning.verifier_rows import (
    ROW_SETS,
    Chosen,
    Drawn,
    RowSet,
    encoder_folder,
    sides,
    verifier_features,
)
from training.feature_verifier import train_on_features

SEED: Final = 13
LABELS: Final[Mapping[RowSet, tuple[int, ...]]] = {"all": (100, 300, 1000, 3000), "unseen": (100, 300, 1000)}
DRAWS: Final = 5
ARMS: Final = ("random", "queue", "uncertainty")
FIRST: Final = 100
A_ROUND: Final = 100
ROUNDS: Final = 6
REPEATS: Final = 10
BLIND_SHARE: Final = 0.3
"""As the desk draws by default."""


def label_draw(pool: Drawn, labels: int, seed: int) -> list[int]:
    """Places in the pool; a smaller draw of the same seed is a part of the larger one."""
    places = list(range(len(pool)))
    Random(seed).shuffle(places)
    return places[:labels]


def trained(rows: Drawn, *, seed: int, encoder: Encoder) -> FeatureVerifier:
    return train_on_features(rows.features, rows.types, rows.answers, rows.groups, seed=seed, encoder=encoder).verifier


def verifier_curve(folder: Path) -> Mapping[str, Any]:
    """Of both sets, by number of labels: figures on the test rows over several draws; and what needs no labels."""
    encoder = Encoder.open(encoder_folder())
    told: dict[str, Any] = {}
    for name in ROW_SETS:
        pool, test = sides(folder, name)
        curve = {}
        for labels in (*LABELS[name], len(pool)):
            begun = time.process_time()
            seeds = range(DRAWS) if labels < len(pool) else range(1)
            found = [
                said_by(trained(pool.chosen(label_draw(pool, labels, seed)), seed=SEED, encoder=encoder), test)
                for seed in seeds
            ]
            seconds = (time.process_time() - begun) / len(found)
            curve[str(labels)] = {
                "draws": len(found),
                "cpu_s_each": round(seconds, 2),
                "targets": figures(test, found, seed=SEED),
            }
        told[name] = {
            "pool_rows": len(pool),
            "test_rows": len(test),
            "test_questions": len(set(test.groups)),
            "majority": figures(test, [majority(pool, len(test))], seed=SEED),
            "contract": figures(test, [by_contract(test)], seed=SEED),
            "labels": curve,
        }
    return told


def majority(learnt_from: Drawn, count: int) -> Judgements:
    """The base rate of the labels for everything."""
    rates: dict[Any, NDArray[np.float64]] = {}
    for target in TARGETS:
        truths = [truth for answer in learnt_from.answers if (truth := target_truth(answer, target)) is not None]
        rates[target] = np.full(count, (sum(truths) + 1) / (len(truths) + 2))
    return rates


def by_contract(rows: Drawn) -> Judgements:
    """Valid exactly where no required check fails."""
    failed = rows.features[:, FEATURE_NAMES.index("required_failed")]
    return {"valid": (failed == 0).astype(float)}


def verifier_queue_unseen(folder: Path) -> Mapping[str, Any]:
    return queue_rounds(folder, "unseen")


def verifier_queue_all(folder: Path) -> Mapping[str, Any]:
    return queue_rounds(folder, "all")


def queue_rounds(folder: Path, name: RowSet) -> Mapping[str, Any]:
    """Rounds of labels by each order from the same first labels; figures and differences to random order by round."""
    encoder = Encoder.open(encoder_folder())
    pool, test = sides(folder, name)
    said: dict[str, list[list[Judgements]]] = {arm: [[] for _ in range(ROUNDS)] for arm in ARMS}
    failing: dict[str, list[list[float]]] = {arm: [[] for _ in range(ROUNDS)] for arm in ARMS}
    for repeat in range(REPEATS):
        for arm in ARMS:
            labelled = label_draw(pool, FIRST, SEED + repeat)
            for round_ in range(ROUNDS):
                rows = pool.chosen(labelled)
                verifier = trained(rows, seed=SEED, encoder=encoder)
                said[arm][round_].append(said_by(verifier, test))
                failing[arm][round_].append(float(np.mean([answer.is_valid is False for answer in rows.answers])))
                if round_ + 1 < ROUNDS:
                    labelled = labelled + _next(arm, pool, labelled, verifier, SEED + repeat)
    return {
        "set": name,
        "pool_rows": len(pool),
        "test_rows": len(test),
        "repeats": REPEATS,
        "blind_share": BLIND_SHARE,
        "rounds": [
            {
                "labels": FIRST + round_ * A_ROUND,
                "failing": {arm: round(float(np.mean(failing[arm][round_])), 3) for arm in ARMS},
                "arms": {arm: figures(test, said[arm][round_], seed=SEED) for arm in ARMS},
                "over_random": {
                    arm: differences(test, said["random"][round_], said[arm][round_], seed=SEED)
                    for arm in ARMS
                    if arm != "random"
                },
            }
            for round_ in range(ROUNDS)
        ],
    }


def _next(arm: str, pool: Drawn, labelled: Sequence[int], verifier: FeatureVerifier, seed: int) -> list[int]:
    """Places of the next labels among those that have none."""
    if arm == "random":
        return label_draw(pool, len(labelled) + A_ROUND, seed)[len(labelled) :]
    waiting = sorted(set(range(len(pool))) - set(labelled))
    share = BLIND_SHARE if arm == "queue" else 0.0
    priorities = _priorities(pool, np.array(waiting), verifier, share=share, seed=seed)
    first = np.argsort(-priorities, kind="stable")[:A_ROUND]
    return [waiting[place] for place in first]


def _priorities(
    pool: Drawn, places: Chosen, verifier: FeatureVerifier, *, share: float, seed: int
) -> NDArray[np.float64]:
    rows = pool.chosen(places)
    said = said_by(verifier, rows)
    columns = np.stack([said[target] for target in ("TC", "LC", "AU", "valid")], axis=1).tolist()
    found = []
    for (_, variant), (tc, lc, au, valid) in zip(rows.pairs, columns, strict=True):
        if is_drawn_blind(variant.variant_id, share=share, seed=seed):
            found.append(row_seed("place", seed, variant.variant_id) / 2**31)
        else:
            candidate = QueueCandidate(
                variant.variant_id, tc, lc, au, valid, has_unparsed=False, is_in_gate=False, is_queued_blind=None
            )
            found.append(priority_and_reason(candidate)[0])
    return np.array(found)


STAGES: Final[Mapping[str, Stage]] = {
    "verifier_features": verifier_features,
    "verifier_curve": verifier_curve,
    "verifier_queue_unseen": verifier_queue_unseen,
    "verifier_queue_all": verifier_queue_all,
}
