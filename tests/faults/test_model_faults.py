"""Models that must not be loaded, or are changed since registration; and two clicks on the same button."""

import json
import pickle
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from data.errors import ConflictError, ModelError, SagedeskError
from data.records import Run
from data.tables.questions import QuestionTable
from data.tables.runs import RunTable
from data.tables.variants import VariantTable
from engine.jobs.__main__ import run_job
from engine.jobs.folder import RunFolder
from tests.engine.sample_pairs import sample_rows
from tests.faults.training_runs import training_folder, training_inputs
from tests.ui.registered import registered_verifier, saying
from training.registry import RegisteredModel, aliases, promote, set_alias
from ui.desk.context import OPERATOR, Desk
from ui.desk.usecases.gates import compare_models
from ui.desk.usecases.learning import refresh_generator, retrain_verifier
from ui.desk.usecases.model_promotion import promote_model, rollback_model
from ui.desk.usecases.verification import start_verification


class Opens:
    """What a pickle runs when it is read: makes a file."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.canary,)


def with_pickle(folder: Path, canary: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Opens(canary)))


def only_pickle(folder: Path, canary: Path) -> None:
    (folder / "model.safetensors").unlink()
    with_pickle(folder, canary)


def with_code_of_its_own(folder: Path, canary: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    own = {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}
    (folder / "config.json").write_text(json.dumps({**config, "model_type": "own", "auto_map": own}))
    (folder / "own.py").write_text(f"import pathlib; pathlib.Path({str(canary)!r}).touch()\n")


def with_a_tokenizer_of_its_own(folder: Path, canary: Path) -> None:
    file = folder / "tokenizer_config.json"
    own = {"auto_map": {"AutoTokenizer": ["own.Tokenizer", None]}}
    file.write_text(json.dumps({**json.loads(file.read_text()), **own}))
    (folder / "own.py").write_text(f"import pathlib; pathlib.Path({str(canary)!r}).touch()\n")


ABUSES = (with_pickle, only_pickle, with_code_of_its_own, with_a_tokenizer_of_its_own)


def verifier_inputs() -> Mapping[str, pa.Table]:
    return training_inputs()


def gate_inputs() -> Mapping[str, pa.Table]:
    of_training = training_inputs()
    labels = of_training["labels"]
    place = labels.schema.get_field_index("part")
    gate = labels.set_column(place, labels.schema.field("part"), pa.array(["gate"] * labels.num_rows))
    return {**of_training, "labels": gate, "past_errors": pa.table({"variant_id": pa.array([], pa.string())})}


def refresh_inputs() -> Mapping[str, pa.Table]:
    rows = sample_rows()
    learnt = next(place for place, answers in enumerate(rows.answers) if answers.is_valid)
    held_out = next(place for place, group in enumerate(rows.groups) if group != rows.groups[learnt])
    return {
        **training_inputs(),
        "labels": training_inputs()["labels"].slice(0, 0),
        "accepted": pa.table({"variant_id": [rows.pairs[learnt][1].variant_id]}),
        "prompts": pa.table({"question_id": [rows.pairs[learnt][0].question_id]}),
        "held_out": pa.table({"question_id": [rows.pairs[held_out][0].question_id]}),
        "probe": pa.table({"variant_id": pa.array([], pa.string())}),
    }


JOBS: Mapping[str, tuple[str, Callable[[], Mapping[str, pa.Table]], Callable[[str, str], dict[str, object]]]] = {
    "base of a verifier": (
        "train-verifier",
        verifier_inputs,
        lambda bad, _: {"verifier": "language", "base_model": bad},
    ),
    "encoder of a verifier": ("train-verifier", verifier_inputs, lambda bad, _: {"encoder": bad}),
    "champion at the gate": ("gate-verifier", gate_inputs, lambda bad, good: {"champion": bad, "challenger": good}),
    "challenger at the gate": ("gate-verifier", gate_inputs, lambda bad, good: {"champion": good, "challenger": bad}),
    "base of a generator": (
        "refresh-generator",
        refresh_inputs,
        lambda bad, good: {"base_model": bad, "reward_verifier": good},
    ),
    "reward of a generator": (
        "refresh-generator",
        refresh_inputs,
        lambda bad, _: {"base_model": bad + "-sound", "reward_verifier": bad, "sft": {"skip": True}},
    ),
    "judge of a generator": (
        "refresh-generator",
        refresh_inputs,
        lambda bad, good: {"base_model": bad + "-sound", "reward_verifier": good, "judge": bad},
    ),
}


@pytest.fixture
def signals() -> Iterator[None]:
    """A job in this process takes SIGTERM for itself."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("abuse", ABUSES)
@pytest.mark.parametrize("place", JOBS)
@pytest.mark.usefixtures("signals")
def test_a_model_that_brings_code_is_refused_wherever_a_training_names_it(
    tiny_model_folder: Path, tmp_path: Path, place: str, abuse: Callable[[Path, Path], None]
) -> None:
    bad, sound, good = tmp_path / "bad", tmp_path / "bad-sound", tmp_path / "good"
    canary = tmp_path / "canary"
    shutil.copytree(tiny_model_folder, bad)
    shutil.copytree(tiny_model_folder, sound)
    (bad / "verifier.json").write_text(json.dumps({"method": "ira", "base": "tiny"}))
    abuse(bad, canary)
    saying(good, 0.7)
    kind, inputs, settings = JOBS[place]
    folder = training_folder(tmp_path / "r_1", settings(str(bad), str(good)), inputs(), kind=kind)

    result = run_job(folder)

    assert result.state == "failed"
    assert str(bad) in result.error
    assert any(word in result.error for word in ("pickle", "code"))
    assert not canary.exists()
    assert not (folder.outputs / "model").exists()


def test_the_canary_would_sing(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Opens(tmp_path / "canary")))

    assert (tmp_path / "canary").exists()


def flip_one_bit(model: RegisteredModel) -> None:
    file = model.folder / sorted(model.files)[0]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.fixture
def registered(idle: Desk, tmp_path: Path) -> tuple[RegisteredModel, RegisteredModel]:
    """A champion, and a challenger; with variants to judge."""
    champion = registered_verifier(idle, tmp_path / "one", 0.7)
    challenger = registered_verifier(idle, tmp_path / "two", 0.8)
    promote(idle.settings.models, "verifier", champion.model_id)
    set_alias(idle.settings.models, "verifier", "challenger", challenger.model_id)
    rows = sample_rows()
    with idle.store.write() as connection:
        QuestionTable(connection).upsert([question for question, _ in rows.pairs[:10]], now=idle.now())
        VariantTable(connection).upsert([variant for _, variant in rows.pairs[:10]])
    return champion, challenger


def verify(desk: Desk, champion: RegisteredModel, _challenger: RegisteredModel) -> object:
    ids = [variant.variant_id for _, variant in sample_rows().pairs[:10]]
    assert champion.role == "verifier"
    return start_verification(desk, OPERATOR, verifier="champion", variant_ids=ids)


def refresh(desk: Desk, *_models: RegisteredModel) -> object:
    return refresh_generator(desk, OPERATOR)


def compare(desk: Desk, _champion: RegisteredModel, challenger: RegisteredModel) -> object:
    return compare_models(desk, OPERATOR, model_id=challenger.model_id)


@pytest.mark.parametrize("use", [verify, refresh, compare])
def test_a_champion_with_one_bit_flipped_is_used_for_nothing_and_stays_champion(
    idle: Desk, registered: tuple[RegisteredModel, RegisteredModel], use: Callable[..., object]
) -> None:
    champion, challenger = registered
    flip_one_bit(champion)

    with pytest.raises(ModelError, match="has changed since registration"):
        use(idle, champion, challenger)

    assert aliases(idle.settings.models, "verifier")["champion"] == champion.model_id
    with idle.store.read() as connection:
        assert RunTable(connection).newest(limit=9) == []


def test_a_challenger_with_one_bit_flipped_is_not_promoted_and_the_champion_stays(
    idle: Desk, registered: tuple[RegisteredModel, RegisteredModel]
) -> None:
    champion, challenger = registered
    flip_one_bit(challenger)

    with pytest.raises(ModelError, match="has changed since registration"):
        promote_model(idle, OPERATOR, model_id=challenger.model_id, note="better", despite_gate=True)

    assert aliases(idle.settings.models, "verifier") == {
        "champion": champion.model_id,
        "challenger": challenger.model_id,
    }
    assert verify(idle, champion, challenger)


def test_nobody_goes_back_to_a_model_with_one_bit_flipped(
    idle: Desk, registered: tuple[RegisteredModel, RegisteredModel]
) -> None:
    champion, challenger = registered
    promote_model(idle, OPERATOR, model_id=challenger.model_id, note="better", despite_gate=True)
    flip_one_bit(champion)

    with pytest.raises(ModelError, match="has changed since registration"):
        rollback_model(idle, OPERATOR, role="verifier", note="worse")

    assert aliases(idle.settings.models, "verifier")["champion"] == challenger.model_id


@pytest.mark.slow
def test_many_clicks_at_once_are_one_training(idle: Desk) -> None:
    clicks = 6
    together = threading.Barrier(clicks)
    started: list[Run] = []
    refused: list[SagedeskError] = []

    def click() -> None:
        together.wait()
        try:
            started.append(retrain_verifier(idle, OPERATOR))
        except ConflictError as exc:
            refused.append(exc)

    threads = [threading.Thread(target=click) for _ in range(clicks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    (run,) = started
    assert len(refused) == clicks - 1
    assert all(run.run_id in str(exc) for exc in refused)
    with idle.store.read() as connection:
        assert [it.run_id for it in RunTable(connection).newest(limit=9)] == [run.run_id]
    assert [folder.name for folder in idle.settings.runs.iterdir()] == [run.run_id]
    assert RunFolder(Path(run.folder)).spec().kind == "train-verifier"
