"""The parts of the store's question clusters, and the seed for everything drawn once about them.

Drawn by `training.splits` and stored when first needed. Refuses to move a cluster that already has a part.
"""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from data.records import Part, VariantId
from data.store import Connection
from data.tables.cluster_parts import ClusterPartTable
from data.tables.policies import PolicyTable
from training.examples import learnt_groups
from training.splits import assign

DRAW_SEED_POLICY: Final = "queue_seed"


def ensure_parts(connection: Connection, now: datetime, *, variant_ids: Sequence[VariantId] | None = None) -> None:
    """Gives a part to every cluster without one.

    Args:
        variant_ids: only the clusters of these variants, if they pass their contract; None: of all questions.
    """
    seed = draw_seed(connection, now)
    ClusterPartTable(connection).add(_new_parts(connection, seed, variant_ids), now)


def parts(connection: Connection) -> Mapping[str, Part]:
    """Every cluster with its part, including parts that `ensure_parts` would draw now."""
    seed = PolicyTable(connection).get(DRAW_SEED_POLICY, 0)
    standing = {cluster: it.part for cluster, it in ClusterPartTable(connection).standing().items()}
    return standing | _new_parts(connection, seed, None)


def draw_seed(connection: Connection, now: datetime) -> int:
    """The seed for blindness and parts, created once per store."""
    policies = PolicyTable(connection)
    seed = policies.get(DRAW_SEED_POLICY, -1)
    if seed < 0:
        seed = secrets.randbelow(2**31)
        policies.set(DRAW_SEED_POLICY, seed, by="desk", now=now)
    return seed


def _new_parts(connection: Connection, seed: int, variant_ids: Sequence[VariantId] | None) -> dict[str, Part]:
    table = ClusterPartTable(connection)
    lacking = table.without_part(variant_ids)
    return assign(lacking, table.standing(), learnt=learnt_groups(), seed=seed) if lacking else {}
