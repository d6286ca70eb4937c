"""The verifier's rows: two sets of labelled variants with their features, split once by question into pool and test.

`all`: as `corruption.labelled` makes them; six in seven of the faults break the type's contract, so that nobody would
be asked. `unseen`: only faults that the contract lets through, which is what people meet. Labels are drawn from the
pool; test rows are of other questions. Features are computed once and kept beside the stages' findings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.records import Answers
from engine.embedded import EMBEDDED_ENCODER, embedded_folder
from engine.embeddings import Encoder
from engine.feature_verifier import type_indices
from engine.features import Features, features
from engine.variant_types.table import contract_checks, contract_passes
from engine.verify import Pair
from tests.bench.learning.corruption import (
    ANSWERS,
    CORRUPTIONS,
    Corruption,
    Labelled,
    accepted,
    corrupted,
    labelled,
    of_questions,
    question_ids,
    rows_by_corruption,
)
from tests.bench.learning.stages import found

RowSet = Literal["all", "unseen"]
ROW_SETS: Final[tuple[RowSet, ...]] = ("all", "unseen")
POOL: Final = slice(0, 640)
TEST: Final = slice(640, 800)
_SEED: Final = 11
_OF_TYPE: Final[frozenset[Corruption]] = frozenset(("wrong_type", "unchanged_context"))

Chosen = NDArray[np.int_]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Rows of one side of a set with what a training needs of them, all in one order."""

    features: Features
    types: NDArray[np.int_]
    answers: Sequence[Answers]
    groups: Sequence[str]
    pairs: Sequence[Pair]

    def __len__(self) -> int:
        return len(self.answers)

    def chosen(self, rows: Sequence[int] | Chosen) -> "Drawn":
        return Drawn(
            self.features[rows],
            self.types[rows],
            [self.answers[row] for row in rows],
            [self.groups[row] for row in rows],
            [self.pairs[row] for row in rows],
        )


class Sides(NamedTuple):
    pool: Drawn
    test: Drawn


def encoder_folder() -> Path:
    """Raises FileNotFoundError until `make setup` has fetched the embedded encoder."""
    folder = embedded_folder(EMBEDDED_ENCODER)
    if folder is None:
        raise FileNotFoundError("the embedded encoder is not there; run `make setup`")
    return folder


def verifier_features(folder: Path) -> Mapping[str, Any]:
    """Computes the features of both sets; leaves `verifier-features.npz`."""
    encoder = Encoder.open(encoder_folder())
    found_rows = {name: _rows(name) for name in ROW_SETS}
    arrays = {
        name: features([(row.question, row.variant) for row in rows], encoder) for name, rows in found_rows.items()
    }
    np.savez(folder / "verifier-features.npz", allow_pickle=False, **arrays)
    return {
        "encoder": encoder.fingerprint,
        "sets": {name: _counts(name, rows) for name, rows in found_rows.items()},
    }


def sides(folder: Path, name: RowSet) -> Sides:
    """Pool and test rows of a set.

    Raises:
        FileNotFoundError: `verifier_features` has not been run.
        ValueError: its features are of other rows than these.
    """
    rows, told = _rows(name), found(folder, "verifier_features")["sets"][name]
    if _counts(name, rows) != told:
        raise ValueError(f"the kept features are of other {name} rows; delete verifier_features.json and run it again")
    with np.load(folder / "verifier-features.npz", allow_pickle=False) as arrays:
        array: Features = arrays[name]
    pairs = [(row.question, row.variant) for row in rows]
    everything = Drawn(
        array, type_indices(pairs), [row.answers for row in rows], [row.question.question_id for row in rows], pairs
    )
    test_ids = set(question_ids()[TEST])
    is_test = [group in test_ids for group in everything.groups]
    return Sides(
        everything.chosen([row for row, test in enumerate(is_test) if not test]),
        everything.chosen([row for row, test in enumerate(is_test) if test]),
    )


@cache
def _rows(name: RowSet) -> tuple[Labelled, ...]:
    return tuple(labelled(question_ids(), seed=_SEED) if name == "all" else unseen(question_ids(), seed=_SEED))


def unseen(ids: Sequence[str], *, seed: int) -> list[Labelled]:
    """Half right, half with a fault that the contract lets through, in a shuffled order.

    A variant of which every fault is caught is left out, the right one too: else its type alone would say that it is
    right. Faults of type come first, for the contract lets few of them through.
    """
    rng = Random(seed)
    rows = []
    for question, variant in of_questions(accepted(), ids):
        order = sorted(rng.sample(CORRUPTIONS, len(CORRUPTIONS)), key=lambda kind: kind not in _OF_TYPE)
        faults = []
        for corruption in order:
            broken = corrupted(question, variant, corruption, rng)
            if broken is not None and contract_passes(contract_checks(question, broken)):
                faults.append(Labelled(question, broken, ANSWERS[corruption], corruption))
        if faults:
            rows.append(Labelled(question, variant, ANSWERS["none"], "none") if rng.random() < 0.5 else faults[0])
    rng.shuffle(rows)
    return rows


def _counts(name: RowSet, rows: Sequence[Labelled]) -> Mapping[str, Any]:
    """What is told of a set; its last entry changes with any row."""
    from data.ids import content_hash

    test_ids = set(question_ids()[TEST])
    of_test = [row for row in rows if row.question.question_id in test_ids]
    return {
        "name": name,
        "rows": len(rows),
        "test_rows": len(of_test),
        "test_questions": len({row.question.question_id for row in of_test}),
        "by_corruption": dict(rows_by_corruption(rows)),
        "test_contract_passes": sum(contract_passes(contract_checks(row.question, row.variant)) for row in of_test),
        "hash": content_hash([row.variant.variant_id for row in rows]),
    }
