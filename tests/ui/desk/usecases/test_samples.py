"""The sample project in a desk: trained on 70 % of its questions, the others before people with honest verdicts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from data.errors import ConflictError, JobError, PermissionDeniedError
from data.tables.questions import QuestionTable
from data.tables.queue import QueueTable
from data.tables.variants import VariantTable
from data.tables.verdicts import VerdictTable
from training.examples import sample_split
from ui.desk.context import OPERATOR, Actor, Desk
from ui.desk.settings import Settings
from ui.desk.usecases import models, questions, runs, samples
from ui.desk.wiring import close_desk, open_desk

ANA = Actor("ana", "annotator")


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, samples.SampleProject]]:
    """One desk for all that only look; its cache is empty, as without network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SAGEDESK_CACHE", str(tmp_path_factory.mktemp("empty-cache")))
        desk = open_desk(Settings(state=tmp_path_factory.mktemp("state") / "var"), with_label_studio=False)
        yield desk, samples.load_sample_project(desk, OPERATOR)
        close_desk(desk, end_jobs=True)


@pytest.mark.server
def test_it_brings_all_in_and_trains_judges_and_queues_in_runs_that_can_be_seen(
    loaded: tuple[Desk, samples.SampleProject],
) -> None:
    desk, project = loaded
    seen = {run.kind: run for run in runs.list_runs(desk, ANA)}

    assert set(seen) == {"train-verifier", "verify"}
    assert {run.state for run in seen.values()} == {"done"}
    assert (project.training_run, project.verification_run) == (seen["train-verifier"].run_id, seen["verify"].run_id)
    assert project.verifier_version == seen["verify"].result["verifier_version"]
    assert project.learnt_from + project.held_out == project.variants
    with desk.store.read() as connection:
        assert QuestionTable(connection).count() == project.questions
        assert VariantTable(connection).count() == project.variants


@pytest.mark.server
def test_without_the_encoder_it_says_that_embeddings_are_missing(loaded: tuple[Desk, samples.SampleProject]) -> None:
    desk, project = loaded

    assert project.with_embeddings is False
    said = runs.run_messages(desk, ANA, run_id=project.training_run)
    assert any("without embeddings" in message.text and message.level == "warning" for message in said)


@pytest.mark.server
def test_only_held_out_variants_are_judged_and_queued(loaded: tuple[Desk, samples.SampleProject]) -> None:
    desk, project = loaded
    learnt, held_out = (
        [item.variant.variant_id for item in side] for side in (sample_split().learnt, sample_split().held_out)
    )
    with desk.store.read() as connection:
        judged = VerdictTable(connection).latest_for([*learnt, *held_out])
        queued = [one for one in [*learnt, *held_out] if QueueTable(connection).find(one) is not None]

    assert set(judged) == set(held_out)
    assert set(queued) < set(held_out)
    assert len(queued) == project.queued > 40


@pytest.mark.server
def test_sample_labels_become_no_annotation_and_no_decision(loaded: tuple[Desk, samples.SampleProject]) -> None:
    desk, _ = loaded
    with desk.store.read() as connection:
        assert connection.execute(
            "SELECT (SELECT count(*) FROM annotation) + (SELECT count(*) FROM decision)"
        ).fetchall() == [(0,)]


@pytest.mark.server
def test_the_first_verifier_is_champion(loaded: tuple[Desk, samples.SampleProject]) -> None:
    desk, project = loaded

    (champion,) = [model for model in models.list_models(desk, ANA) if model.role == "verifier"]

    assert champion.is_champion
    assert champion.version == project.verifier_version
    assert samples.train_first_verifier(desk, OPERATOR) is None


@pytest.mark.server
def test_a_store_that_has_it_is_not_loaded_again(loaded: tuple[Desk, samples.SampleProject]) -> None:
    desk, _ = loaded

    assert not samples.wants_sample_project(desk, OPERATOR)
    with pytest.raises(ConflictError, match="empty store"):
        samples.load_sample_project(desk, OPERATOR)


@pytest.mark.usefixtures("stocked")
def test_it_does_not_go_beside_somebodys_own_questions(desk: Desk) -> None:
    with pytest.raises(ConflictError, match="SAGEDESK_STATE"):
        samples.load_sample_project(desk, OPERATOR)

    assert questions.search_questions(desk, OPERATOR).total == 4


def test_an_annotator_is_refused(desk: Desk) -> None:
    with pytest.raises(PermissionDeniedError):
        samples.load_sample_project(desk, ANA)

    assert questions.search_questions(desk, OPERATOR).total == 0


@pytest.mark.server
def test_a_training_that_fails_is_told_and_the_next_call_goes_on(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache whose encoder is damaged, mended by removing it."""
    cache = tmp_path / "cache"
    encoder = cache / "models" / "all-minilm-l6-v2"
    encoder.mkdir(parents=True)
    (encoder / "model.safetensors").write_bytes(b"")
    monkeypatch.setenv("SAGEDESK_CACHE", str(cache))

    with pytest.raises(JobError, match=r"train-verifier failed: .*config\.json.*sagedesk run log"):
        samples.load_sample_project(desk, OPERATOR)
    assert samples.wants_sample_project(desk, OPERATOR)
    (encoder / "model.safetensors").unlink()

    project = samples.load_sample_project(desk, OPERATOR)

    assert project.queued > 40
    assert [run.state for run in runs.list_runs(desk, ANA, kind="train-verifier")] == ["done", "failed"]
