"""From generation to the queue: what follows a run follows by itself, and blind stays blind."""

from pathlib import Path

import numpy as np
import pytest

from data.dimensions import DIMENSIONS
from data.errors import NotFoundError
from data.records import VARIANT_TYPE_KEYS
from data.tables.queue import QueueTable
from engine.baseline import DimensionModel, FeatureVerifier
from engine.features import FEATURE_NAMES
from training.registry import promote, register
from ui.usecases import generation, questions, verification
from ui.usecases.context import OPERATOR, Actor, Desk
from ui.usecases.review import set_blind_share

ANA = Actor("ana", "annotator")


@pytest.fixture
def verifier(desk: Desk, tmp_path: Path) -> FeatureVerifier:
    """Champion of the desk: says 0.5 to everything, for want of weights."""
    places = len(VARIANT_TYPE_KEYS)
    models = [
        DimensionModel(
            dimension.key, FEATURE_NAMES[:1], np.zeros((places, 1)), np.ones((places, 1)), np.zeros(1), 0.0, 1.0, 0.0
        )
        for dimension in DIMENSIONS
    ]
    made = FeatureVerifier(models, encoder=None)
    made.save(tmp_path / "made")
    kept = register(
        desk.settings.models, tmp_path / "made", role="verifier", kind="feature", version=made.version, origin={}
    )
    promote(desk.settings.models, "verifier", kept.model_id)
    return made


@pytest.mark.usefixtures("stocked")
def test_generated_variants_are_verified_and_queued_and_blind_ones_show_no_verdict(
    desk: Desk, verifier: FeatureVerifier
) -> None:
    set_blind_share(desk, OPERATOR, share=1.0)

    made = generation.start_generation(desk, OPERATOR, backend="rules", types=["reverse"], seed=5)
    made = desk.supervisor.wait(made.run_id, timeout_s=60)
    judged = desk.supervisor.wait(str(made.result["followed_by"]), timeout_s=60)
    to_ana = questions.list_variants(desk, ANA, variant_type="reverse")
    to_operator = questions.list_variants(desk, OPERATOR, variant_type="reverse")

    assert (made.state, judged.state, judged.kind) == ("done", "done", "verify")
    assert (judged.result["verifier_version"], judged.result["queued"]) == (verifier.version, 4)
    assert [item.is_blind for item in to_ana.items] == [True] * 4
    assert all(item.verdicts == () for item in to_ana.items)
    assert all(len(item.verdicts) == 4 and not item.is_blind for item in to_operator.items)
    with desk.store.read() as connection:
        entries = [QueueTable(connection).find(item.variant.variant_id) for item in to_ana.items]
    assert {entry.is_blind for entry in entries if entry is not None} == {True}

    with pytest.raises(NotFoundError, match="no variant left to verify"):
        verification.start_verification(desk, OPERATOR)
    again = generation.start_generation(desk, OPERATOR, backend="rules", types=["reverse"], seed=5)
    again = desk.supervisor.wait(again.run_id, timeout_s=60)
    assert again.result["variants"] == {"new": 0, "same": 4}
    assert "followed_by" not in again.result


@pytest.mark.usefixtures("stocked")
def test_without_a_verifier_what_was_generated_stays_and_says_what_to_do(desk: Desk) -> None:
    made = generation.start_generation(desk, OPERATOR, backend="rules", types=["reverse"])
    made = desk.supervisor.wait(made.run_id, timeout_s=60)

    assert (made.state, made.result["made"]) == ("done", 4)
    assert "sagedesk model train" in str(made.result["not_verified"])
    assert "followed_by" not in made.result
    with pytest.raises(NotFoundError, match="sagedesk model train"):
        verification.start_verification(desk, OPERATOR)
