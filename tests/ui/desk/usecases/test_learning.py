"""Starting a training: what the run is told, one of a role at a time, and what is refused before anything starts."""

from pathlib import Path
from typing import Any

import pytest

from data.errors import ConflictError, InputError, ModelError
from data.records import Run
from data.tables.audit import AuditTable
from data.tables.cluster_parts import ClusterPartTable
from engine.jobs.folder import RunFolder
from tests.ui.registered import ended_run, registered_generator, registered_verifier, saying
from training.examples import sample_split
from training.refresh_settings import RefreshGeneratorSettings
from training.registry import promote
from ui.desk.context import Actor, Desk
from ui.desk.model_ingest import prepare_verifier
from ui.desk.usecases.learning import refresh_generator, retrain_verifier, train_as_before

LEA = Actor("lea", "lead")


@pytest.fixture
def idle(desk: Desk) -> Desk:
    """What is submitted stays queued."""
    desk.supervisor.stop(end_jobs=True)  # leaves no room for a job
    return desk


def told(run: Run) -> dict[str, object]:
    """The settings that the job reads."""
    return dict(RunFolder(Path(run.folder)).spec().settings)


def test_a_first_verifier_learns_from_the_samples_labels(idle: Desk) -> None:
    run = retrain_verifier(idle, LEA, seed=7)

    folder = RunFolder(Path(run.folder))
    labels = folder.read_input("labels")
    assert (run.kind, run.state, run.settings["parent"]) == ("train-verifier", "queued", None)
    assert (folder.spec().seed, told(run)["verifier"], told(run)["target_precision"]) == (7, "feature", 0.95)
    assert labels.num_rows == len(sample_split().learnt)
    assert set(labels["part"].to_pylist()) == {"train"}


def test_two_clicks_are_one_training_and_the_second_is_told_which(idle: Desk) -> None:
    run = retrain_verifier(idle, LEA)

    with pytest.raises(ConflictError, match=rf"already being trained by run {run.run_id} \(queued\)"):
        retrain_verifier(idle, LEA)
    with idle.store.read() as connection:
        started = [it for it in AuditTable(connection).recent() if it.action == "verifier.retrain"]
    assert [it.subject for it in started] == [run.run_id]


def test_a_run_for_a_worker_waits_for_its_export_and_counts_as_the_one_training(idle: Desk) -> None:
    run = retrain_verifier(idle, LEA, elsewhere=True)

    assert run.state == "away"
    with pytest.raises(ConflictError, match=run.run_id):
        retrain_verifier(idle, LEA)


def test_a_language_model_is_told_its_method_and_base(idle: Desk, tmp_path: Path) -> None:
    champion = registered_verifier(idle, tmp_path / "a", 0.6)
    promote(idle.settings.models, "verifier", champion.model_id)
    (tmp_path / "base").mkdir()

    run = retrain_verifier(
        idle,
        LEA,
        kind="language",
        method="ira",
        base_model=str(tmp_path / "base"),
        lora_rank=None,
        sft={"learning_rate": 1e-4},
    )

    assert told(run) == {
        "verifier": "language",
        "method": "ira",
        "base_model": str(tmp_path / "base"),
        "lora_rank": None,
        "sft": {"learning_rate": 1e-4},
        "compare_methods": False,
        "target_precision": 0.95,
    }
    assert run.settings["parent"] == champion.model_id


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kind": "oracle"}, "use feature or language as the kind"),
        ({"method": "guess"}, "era or ira as the method"),
        ({"seed": -1}, "use 0 to"),
        ({"lora_rank": 0}, "lora_rank 0"),
        ({"max_labels": 0}, "max_labels 0"),
        ({"target_precision": 1.0}, "target precision 1.0"),
        ({"sft": {"learning_rate": 1e-4}}, "are for language models"),
        ({"base_model": "/models/base"}, "are for language models"),
        ({"compare_methods": True}, "are for language models"),
        ({"kind": "language", "base_model": "no folder"}, "no such folder"),
        ({"kind": "language", "sft": {"hub_token": "t"}}, "hub_token: settings are stored in plain text"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_before_anything_starts(
    idle: Desk, given: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        retrain_verifier(idle, LEA, **given)

    with idle.store.read() as connection:
        assert not ClusterPartTable(connection).standing()


@pytest.mark.usefixtures("stocked")
def test_a_refresh_without_a_verifier_says_what_to_do(idle: Desk) -> None:
    with pytest.raises(ConflictError, match="no verifier has been trained yet"):
        refresh_generator(idle, LEA)


def test_a_refresh_with_nothing_to_practise_on_is_refused_in_one_line(idle: Desk, tmp_path: Path) -> None:
    promote(idle.settings.models, "verifier", registered_verifier(idle, tmp_path / "a", 0.6).model_id)

    with pytest.raises(ConflictError, match="the generator cannot be trained now: no questions for GRPO"):
        refresh_generator(idle, LEA)


@pytest.mark.usefixtures("stocked")
def test_a_refresh_starts_from_the_generator_in_use_and_is_rewarded_by_the_champion(idle: Desk, tmp_path: Path) -> None:
    verifier = registered_verifier(idle, tmp_path / "a", 0.6)
    promote(idle.settings.models, "verifier", verifier.model_id)
    generator = registered_generator(idle, tmp_path / "b", "tuned")
    promote(idle.settings.models, "generator", generator.model_id)

    run = refresh_generator(
        idle,
        LEA,
        types=("reverse", "causal", "reverse"),
        sft_epochs=2,
        sft={"learning_rate": 1e-4},
        grpo_steps=5,
        group_size=4,
        grpo={"beta": 0.1},
        vllm="server",
        vllm_url="http://gpu:8000",
        comparison_questions=3,
    )

    settings = RefreshGeneratorSettings.model_validate(told(run))
    assert (settings.base_model, settings.reward_verifier) == (str(generator.folder), str(verifier.folder))
    assert (settings.types, settings.judge) == (["reverse", "causal"], None)
    assert settings.sft.model_dump() == {"skip": False, "lora_rank": 16, "num_train_epochs": 2, "learning_rate": 1e-4}
    assert (settings.grpo.steps, settings.grpo.group_size, settings.grpo.overrides) == (5, 4, {"beta": 0.1})
    assert (settings.grpo.vllm.mode, settings.grpo.vllm.url) == ("server", "http://gpu:8000")
    assert settings.comparison.questions == 3
    assert run.settings["parent"] == generator.model_id
    with pytest.raises(ConflictError, match=f"a generator is already being trained by run {run.run_id}"):
        refresh_generator(idle, LEA)
    retrain_verifier(idle, LEA)  # of another role


@pytest.mark.usefixtures("stocked")
def test_a_training_as_before_is_told_what_the_champions_own_was_told(idle: Desk, tmp_path: Path) -> None:
    """But for what it starts from: that is the model in use."""
    (tmp_path / "base").mkdir()
    first = retrain_verifier(
        idle, LEA, kind="language", method="ira", base_model=str(tmp_path / "base"), lora_rank=8, sft={"seed": 4}
    )
    idle.supervisor.cancel(first.run_id)
    verifier = registered_verifier(idle, tmp_path / "a", 0.6, settings=told(first))
    promote(idle.settings.models, "verifier", verifier.model_id)
    refresh = refresh_generator(
        idle, LEA, types=("causal",), sft={"learning_rate": 1e-4}, grpo={"beta": 0.1}, vllm="colocate", lora_rank=None
    )
    idle.supervisor.cancel(refresh.run_id)
    generator = registered_generator(idle, tmp_path / "b", "tuned", settings=told(refresh))
    promote(idle.settings.models, "generator", generator.model_id)

    again = train_as_before(idle, LEA, role="verifier")
    refreshed = train_as_before(idle, LEA, role="generator")

    assert told(again) == told(first)
    assert told(refreshed) == {**told(refresh), "base_model": str(generator.folder)}


def test_a_training_as_before_learns_from_as_many_labels_at_most(idle: Desk, tmp_path: Path) -> None:
    most = len(sample_split().learnt) - 5
    first = retrain_verifier(idle, LEA, max_labels=most)
    idle.supervisor.cancel(first.run_id)
    made, ended = ended_run(idle, tmp_path / "r_1", "train-verifier", counts={}, settings=first.settings)
    saying(made.outputs / "model", 0.6)
    ingest = prepare_verifier(idle.settings, made, ended, idle.now)
    with idle.store.write() as connection:
        ingest(connection, made, ended)

    again = train_as_before(idle, LEA, role="verifier")

    assert again.settings["max_labels"] == most
    assert RunFolder(Path(again.folder)).read_input("labels").num_rows == most
    assert "max_labels" not in told(again)


def test_a_first_training_by_schedule_has_the_usual_settings(idle: Desk, tmp_path: Path) -> None:
    usual = retrain_verifier(idle, LEA)
    idle.supervisor.cancel(usual.run_id)

    assert told(train_as_before(idle, LEA, role="verifier")) == told(usual)


@pytest.mark.usefixtures("stocked")
def test_a_damaged_verifier_rewards_nothing(idle: Desk, tmp_path: Path) -> None:
    verifier = registered_verifier(idle, tmp_path / "a", 0.6)
    promote(idle.settings.models, "verifier", verifier.model_id)
    (verifier.folder / "feature-verifier.json").write_text("{}")

    with pytest.raises(ModelError, match="changed since registration"):
        refresh_generator(idle, LEA)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"types": ("poem",)}, "variant type 'poem'"),
        ({"types": ()}, "at least one variant type"),
        ({"group_size": 1}, "group_size 1"),
        ({"sft_epochs": 0}, "sft_epochs 0"),
        ({"skip_sft": True, "grpo_steps": 0}, "nothing would be trained"),
        ({"vllm": "server"}, "vllm_url only with `server`"),
        ({"vllm_url": "http://gpu:8000"}, "vllm_url only with `server`"),
        ({"vllm": "server", "vllm_url": "http://me:secret@gpu:8000"}, "without a password"),
        ({"vllm": "server", "vllm_url": "file:///etc/passwd"}, "http://HOST:PORT"),
        ({"vllm": "perhaps"}, "off, colocate, server"),
        ({"comparison_questions": 0}, "comparison_questions 0"),
        ({"sft": {"hub_token": "secret"}}, "hub_token: settings are stored in plain text"),
        ({"grpo": {"push_to_hub_token": "secret"}}, "push_to_hub_token: settings are stored in plain text"),
        ({"grpo": {"model_init_kwargs": {"API_KEY": "secret"}}}, "API_KEY: settings are stored in plain text"),
        ({"grpo": {"vllm_server_base_url": "http://me:secret@gpu:8000"}}, "without a password"),
    ],
)
def test_a_refresh_that_cannot_be_is_refused(idle: Desk, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as refusal:
        refresh_generator(idle, LEA, **given)

    assert "secret" not in str(refusal.value)
