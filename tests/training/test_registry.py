"""The model registry."""

import threading
from pathlib import Path

import pytest

from data.errors import ConflictError, ModelError, NotFoundError
from data.records import ModelRole
from training.registry import (
    RegisteredModel,
    aliased,
    aliases,
    all_models,
    find_model,
    open_model,
    promote,
    read_model,
    register,
    remove_unfinished,
    roll_back,
    set_alias,
    verified,
)


def made(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / f"made-{text}"
    folder.mkdir(exist_ok=True)
    (folder / "weights.json").write_text(text)
    return folder


def registered(tmp_path: Path, text: str, role: ModelRole = "verifier") -> RegisteredModel:
    return register(
        tmp_path / "models",
        made(tmp_path, text),
        role=role,
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


def test_a_rollback_swaps_champion_and_previous_and_a_second_one_swaps_them_back(tmp_path: Path) -> None:
    models = tmp_path / "models"
    first, second = registered(tmp_path, "one"), registered(tmp_path, "two")
    for model in (first, second):
        promote(models, "verifier", model.model_id)

    back = roll_back(models, "verifier")
    after_one = aliases(models, "verifier")
    forth = roll_back(models, "verifier")

    assert (back, forth) == (first, second)
    assert after_one == {"champion": first.model_id, "previous": second.model_id}
    assert aliases(models, "verifier") == {"champion": second.model_id, "previous": first.model_id}


def test_the_first_verifier_stays_where_there_is_nothing_to_go_back_to(tmp_path: Path) -> None:
    models = tmp_path / "models"
    first = registered(tmp_path, "one")
    promote(models, "verifier", first.model_id)

    with pytest.raises(ConflictError, match="no verifier to roll back to"):
        roll_back(models, "verifier")

    assert aliases(models, "verifier") == {"champion": first.model_id}


def test_the_first_generator_goes_back_to_none_and_forth(tmp_path: Path) -> None:
    models = tmp_path / "models"
    only = registered(tmp_path, "one", role="generator")
    promote(models, "generator", only.model_id)

    back = roll_back(models, "generator")
    after_one = aliases(models, "generator")
    forth = roll_back(models, "generator")

    assert (back, forth) == (None, only)
    assert after_one == {"previous": only.model_id}
    with pytest.raises(ConflictError):
        roll_back(tmp_path / "no-models", "generator")


def test_nobody_goes_back_to_a_damaged_model(tmp_path: Path) -> None:
    models = tmp_path / "models"
    first, second = registered(tmp_path, "one"), registered(tmp_path, "two")
    for model in (first, second):
        promote(models, "verifier", model.model_id)
    (first.folder / "weights.json").write_text("other")

    with pytest.raises(ModelError, match=r"weights\.json"):
        roll_back(models, "verifier")

    assert aliases(models, "verifier") == {"champion": second.model_id, "previous": first.model_id}


def test_a_promoted_challenger_is_a_challenger_no_more_and_another_stays_one(tmp_path: Path) -> None:
    models = tmp_path / "models"
    first, second, third = (registered(tmp_path, text) for text in ("one", "two", "three"))
    promote(models, "verifier", first.model_id)
    set_alias(models, "verifier", "challenger", second.model_id)

    promote(models, "verifier", third.model_id)
    another = aliases(models, "verifier").get("challenger")
    promote(models, "verifier", second.model_id)

    assert another == second.model_id
    assert aliases(models, "verifier") == {"champion": second.model_id, "previous": third.model_id}


def test_a_change_of_aliases_that_was_broken_off_changes_none_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Champion and previous stand in one file: there is no moment between the two."""
    models = tmp_path / "models"
    first, second, third = (registered(tmp_path, text) for text in ("one", "two", "three"))
    for model in (first, second):
        promote(models, "verifier", model.model_id)
    before = aliases(models, "verifier")

    def killed(self: Path, target: Path) -> Path:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            promote(models, "verifier", third.model_id)

    assert aliases(models, "verifier") == before == {"champion": second.model_id, "previous": first.model_id}
    assert not list((models / "verifier").glob(".*"))


def test_what_a_killed_process_left_goes_at_the_next_start_and_models_stay(tmp_path: Path) -> None:
    model = registered(tmp_path, "one")
    half = tmp_path / "models" / "verifier" / f".{model.model_id}-abc123"
    (half / "model").mkdir(parents=True)
    (half / "model" / "weights.json").write_text("...")
    half_aliases = half.with_name(".aliases.json.tmp")
    half_aliases.write_text("{")

    remove_unfinished(tmp_path / "models")

    assert not half.exists()
    assert not half_aliases.exists()
    assert all_models(tmp_path / "models", "verifier") == [model]


def test_a_full_disk_while_promoting_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = tmp_path / "models"
    first, second = registered(tmp_path, "one"), registered(tmp_path, "two")
    promote(models, "verifier", first.model_id)

    def no_room(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", no_room)
        with pytest.raises(ModelError, match="No space left"):
            promote(models, "verifier", second.model_id)

    assert aliases(models, "verifier") == {"champion": first.model_id}


def test_a_damaged_alias_file_is_told_and_not_taken_for_none(tmp_path: Path) -> None:
    promote(tmp_path / "models", "verifier", registered(tmp_path, "one").model_id)
    (tmp_path / "models" / "verifier" / "aliases.json").write_text('{"champion": ')

    with pytest.raises(ModelError, match=r"aliases\.json is damaged"):
        aliased(tmp_path / "models", "verifier", "champion")


def test_a_model_is_found_whichever_role_it_has(tmp_path: Path) -> None:
    generator = registered(tmp_path, "one", role="generator")

    assert find_model(tmp_path / "models", generator.model_id) == generator
    with pytest.raises(NotFoundError, match="model list"):
        find_model(tmp_path / "models", "0123456789abcdef")


def test_one_damaged_manifest_does_not_hide_the_other_models(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = registered(tmp_path, "one"), registered(tmp_path, "two")
    (first.folder / "manifest.json").write_text("{")

    assert all_models(tmp_path / "models", "verifier") == [second]
    assert "is damaged" in caplog.text


def test_a_promotion_is_not_lost_to_a_challenger_that_comes_in_at_the_same_time(tmp_path: Path) -> None:
    models = tmp_path / "models"
    first, second, coming = (registered(tmp_path, text).model_id for text in ("one", "two", "three"))
    promote(models, "verifier", first)
    is_over = threading.Event()
    came_in: list[str] = []
    refused: list[ModelError] = []

    def come_in() -> None:
        while not is_over.is_set():
            try:
                set_alias(models, "verifier", "challenger", coming)
                came_in.append(coming)
            except ModelError as exc:
                refused.append(exc)

    thread = threading.Thread(target=come_in)
    thread.start()
    kept = []
    for wanted in [second, first] * 20:
        promote(models, "verifier", wanted)
        kept.append(aliases(models, "verifier").get("champion") == wanted)
    is_over.set()
    thread.join()

    assert came_in
    assert refused == []
    assert all(kept)
