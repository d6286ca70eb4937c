"""Agreement between people who answered the same variant without seeing each other's answers."""

from collections.abc import Mapping
from dataclasses import dataclass

from data.dimensions import DIMENSIONS
from data.records import VerdictTarget
from data.store import Connection
from data.tables.training_labels import TrainingLabelTable


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of `pairs` of people, the `share` (0..1) that agree.

    `kappa` is Scott's pi, since the order within a pair means nothing; None if all answers are the same, which chance
    alone would explain.
    """

    share: float
    kappa: float | None
    pairs: int


def human_agreement(connection: Connection) -> Mapping[VerdictTarget, Agreement]:
    """Agreement of pairs of people who answered the same variant blind; targets without such a pair are absent."""
    pairs = TrainingLabelTable(connection).blind_pairs()
    answers: dict[VerdictTarget, list[tuple[bool | None, bool | None]]] = {
        dimension.key: [(pair.one.of(dimension.key), pair.other.of(dimension.key)) for pair in pairs]
        for dimension in DIMENSIONS
    }
    answers["valid"] = [(pair.one.is_valid, pair.other.is_valid) for pair in pairs]
    return {target: _agreement(given) for target, given in answers.items() if given}


def _agreement(given: list[tuple[bool | None, bool | None]]) -> Agreement:
    share = sum(one == other for one, other in given) / len(given)
    yes = sum(answer is True for pair in given for answer in pair) / (2 * len(given))
    by_chance = yes**2 + (1 - yes) ** 2
    kappa = None if by_chance == 1 else (share - by_chance) / (1 - by_chance)
    return Agreement(share, kappa, len(given))
