"""The model registry."""

from pathlib import Path

import pytest

from data.errors import ModelError, NotFoundError
from training.registry import (
    RegisteredModel,
    aliased,
    all_models,
    open_model,
    promote,
    read_model,
    register,
    set_alias,
    verified,
)


def made(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / f"made-{text}"
    folder.mkdir(exist_ok=True)
    (folder / "weights.json").write_text(text)
    return folder


def registered(tmp_path: Path, text: str) -> RegisteredModel:
    return register(
        tmp_path / "models",
        made(tmp_path, text),
        role="verifier",
        kind="feature",
        version=f"feature:{text}",
        origin={"run_id": "r_1", "seed": 3},
    )


def test_the_same_content_is_the_same_model(tmp_path: Path) -> None:
    first, again, other = (registered(tmp_path, text) for text in ("one", "one", "two"))

    assert first == again
    assert first.origin == {"run_id": "r_1", "seed": 3}
    assert {model.model_id for model in all_models(tmp_path / "models", "verifier")} == {first.model_id, other.model_id}


def test_a_promoted_model_is_champion_and_the_one_before_is_kept_as_previous(tmp_path: Path) -> None:
    models = tmp_path / "models"
    first, second = registered(tmp_path, "one"), registered(tmp_path, "two")

    promote(models, "verifier", first.model_id)
    promote(models, "verifier", second.model_id)
    promote(models, "verifier", second.model_id)

    assert aliased(models, "verifier", "champion") == second
    assert aliased(models, "verifier", "previous") == first
    assert aliased(models, "verifier", "challenger") is None


def test_a_flipped_bit_is_found_and_the_champion_stays(tmp_path: Path) -> None:
    models = tmp_path / "models"
    first, second = registered(tmp_path, "one"), registered(tmp_path, "two")
    promote(models, "verifier", first.model_id)
    file = second.folder / "weights.json"
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])

    with pytest.raises(ModelError, match=r"weights\.json"):
        promote(models, "verifier", second.model_id)

    assert aliased(models, "verifier", "champion") == first
    assert verified(first) == first


def test_an_alias_never_points_to_what_is_not_there(tmp_path: Path) -> None:
    registered(tmp_path, "one")

    with pytest.raises(NotFoundError, match="nothing-like-it"):
        set_alias(tmp_path / "models", "verifier", "champion", "nothing-like-it")

    assert aliased(tmp_path / "models", "verifier", "champion") is None


def test_a_half_made_model_is_not_seen(tmp_path: Path) -> None:
    registered(tmp_path, "one")
    half = tmp_path / "models" / "verifier" / ".half"
    half.mkdir()
    (half / "weights.json").write_text("...")

    assert len(all_models(tmp_path / "models", "verifier")) == 1


def test_an_empty_folder_is_no_model(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()

    with pytest.raises(ModelError, match="empty"):
        register(tmp_path / "models", empty, role="verifier", kind="feature", version="v", origin={})


def test_a_file_that_was_put_beside_a_model_keeps_it_from_being_opened(tmp_path: Path) -> None:
    model = registered(tmp_path, "one")
    (model.folder / "extra.pkl").write_bytes(b"not ours")

    with pytest.raises(ModelError, match=r"extra\.pkl was not registered"):
        open_model(tmp_path / "models", "verifier", model.model_id)


def test_a_manifest_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    first, second = registered(tmp_path, "one"), registered(tmp_path, "two")
    (first.folder / "manifest.json").write_bytes((second.folder / "manifest.json").read_bytes())

    with pytest.raises(ModelError, match="another model"):
        read_model(tmp_path / "models", "verifier", first.model_id)


@pytest.mark.parametrize("model_id", ["../verifier", "..", "", "champion", "0123"])
def test_what_is_no_id_names_no_model(tmp_path: Path, model_id: str) -> None:
    promote(tmp_path / "models", "verifier", registered(tmp_path, "one").model_id)

    with pytest.raises(NotFoundError, match="model list"):
        open_model(tmp_path / "models", "verifier", model_id)


def test_a_full_disk_while_registering_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    source = made(tmp_path, "one")
    monkeypatch.setattr("os.fsync", no_room)

    with pytest.raises(ModelError, match="No space left"):
        register(tmp_path / "models", source, role="verifier", kind="feature", version="v", origin={})

    assert list((tmp_path / "models" / "verifier").iterdir()) == []
