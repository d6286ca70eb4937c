"""From generation to the queue: what follows a run follows by itself, and blind stays blind."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.dimensions import DIMENSIONS
from data.errors import InputError, NotFoundError
from data.records import VARIANT_TYPE_KEYS, VariantId, Verdict
from data.samples import sample_questions
from data.tables.contract_checks import ContractCheckTable
from data.tables.questions import QuestionTable
from data.tables.queue import QueueTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from engine.feature_verifier import DimensionModel, FeatureVerifier
from engine.features import FEATURE_NAMES
from engine.variant_types.table import contract_checks, contract_passes
from engine.verify import language_verifier_version
from training.examples import sample_split
from training.registry import promote, register
from ui.desk import submissions
from ui.desk.context import OPERATOR, Actor, Desk
from ui.desk.usecases import generation, questions, verification
from ui.desk.usecases.overview import overview
from ui.desk.usecases.review import set_blind_share

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


@pytest.mark.server
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

    with pytest.raises(NotFoundError, match="no variants left to verify"):
        verification.start_verification(desk, OPERATOR)
    again = generation.start_generation(desk, OPERATOR, backend="rules", types=["reverse"], seed=5)
    again = desk.supervisor.wait(again.run_id, timeout_s=60)
    assert again.result["variants"] == {"new": 0, "same": 4}
    assert "followed_by" not in again.result


@pytest.mark.server
@pytest.mark.usefixtures("stocked")
def test_without_a_verifier_what_was_generated_stays_and_says_what_to_do(desk: Desk) -> None:
    made = generation.start_generation(desk, OPERATOR, backend="rules", types=["reverse"])
    made = desk.supervisor.wait(made.run_id, timeout_s=60)

    assert (made.state, made.result["made"]) == ("done", 4)
    assert "sagedesk model retrain" in str(made.result["not_verified"])
    assert "followed_by" not in made.result
    with pytest.raises(NotFoundError, match="sagedesk model retrain"):
        verification.start_verification(desk, OPERATOR)


@pytest.fixture
def sample(desk: Desk) -> list[VariantId]:
    """One variant of the sample that a verifier learns from and one that is held out, both passing their contract."""
    questions_by_id = {question.question_id: question for question in sample_questions()}
    chosen = []
    with desk.store.write() as connection:
        QuestionTable(connection).upsert(questions_by_id.values(), now=desk.now())
        for side in sample_split():
            checked = (
                (it.variant, contract_checks(questions_by_id[it.variant.question_id], it.variant)) for it in side
            )
            variant, checks = next(pair for pair in checked if contract_passes(pair[1]))
            VariantTable(connection).upsert([variant])
            ContractCheckTable(connection).upsert(checks)
            chosen.append(variant.variant_id)
    return chosen


@pytest.mark.server
@pytest.mark.usefixtures("verifier")
def test_what_the_verifier_learnt_from_is_judged_only_when_named_and_never_queued(
    desk: Desk, sample: list[VariantId]
) -> None:
    learnt, held_out = sample

    with desk.store.read() as connection:
        by_itself = submissions.to_verify(connection, desk.settings, verifier="feature", scope="all")
    named = verification.start_verification(desk, OPERATOR, variant_ids=sample)
    named = desk.supervisor.wait(named.run_id, timeout_s=60)

    assert by_itself == [held_out]
    assert (named.result["variants"], named.result["queued"]) == (2, 1)
    with desk.store.read() as connection:
        assert QueueTable(connection).find(learnt) is None
        assert QueueTable(connection).find(held_out) is not None


@pytest.mark.usefixtures("verifier")
def test_the_overview_counts_what_is_left_to_verify(desk: Desk, sample: list[VariantId]) -> None:
    before = overview(desk, OPERATOR).unverified
    with desk.store.write() as connection:
        VerdictTable(connection).upsert([Verdict(sample[1], "TC", 0.5, True, "v", "feature", None, desk.now())])

    assert (before, overview(desk, OPERATOR).unverified) == (1, 0)


@pytest.mark.usefixtures("verifier")
@pytest.mark.parametrize(
    ("narrowed", "refusal", "words"),
    [
        ({"variant_ids": ["v_none"]}, NotFoundError, "no variant v_none"),
        ({"run_id": "r_none"}, NotFoundError, "no run 'r_none'"),
        ({"limit": 0}, InputError, "1 to 10,000,000 variants"),
        ({"verifier": "oracle"}, InputError, "as the verifier"),
    ],
)
def test_a_verification_of_nothing_says_what_is_wrong(
    desk: Desk, narrowed: dict[str, Any], refusal: type[Exception], words: str
) -> None:
    with pytest.raises(refusal, match=words):
        verification.start_verification(desk, OPERATOR, **narrowed)


def test_a_language_model_is_asked_again_only_for_what_it_has_not_judged_in_this_way(
    desk: Desk, sample: list[VariantId], tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    version = language_verifier_version(tmp_path / "model")
    verdict = Verdict(sample[0], "valid", 0.5, True, version, "ira", None, desk.now())
    with desk.store.write() as connection:
        VerdictTable(connection).upsert([verdict])

    with desk.store.read() as connection:
        asked = {
            method: submissions.to_verify(
                connection, desk.settings, verifier=method, scope="unverified", model=str(tmp_path / "model")
            )
            for method in ("ira", "era_packed")
        }

    assert asked["ira"] == [sample[1]]
    assert set(asked["era_packed"]) == set(sample)
