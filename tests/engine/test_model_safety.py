import json
import shutil

import pytest

from data.errors import ModelError
from engine.model_safety import folder_fingerprint, refuse_unsafe_folder


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}', "utf-8")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


def test_a_safetensors_folder_is_accepted(folder):
    refuse_unsafe_folder(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "training_args.bin", "optimizer.pt", "deep/er/adapter.pkl"])
def test_a_pickle_beside_safetensors_is_refused_by_name(folder, name):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\x80\x04.")

    with pytest.raises(ModelError, match=rf"{name} may hold a pickle"):
        refuse_unsafe_folder(folder)


def test_a_folder_without_safetensors_is_refused(folder):
    (folder / "model.safetensors").unlink()

    with pytest.raises(ModelError, match=r"no \.safetensors"):
        refuse_unsafe_folder(folder)


def test_a_folder_without_a_config_is_refused(folder):
    (folder / "config.json").unlink()

    with pytest.raises(ModelError, match=r"no config\.json"):
        refuse_unsafe_folder(folder)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "processor_config.json"])
def test_a_config_that_names_code_is_refused_at_any_depth(folder, name):
    nested = {"text_config": [{"auto_map": {"AutoModel": "modeling_own.OwnModel"}}]}
    (folder / name).write_text(json.dumps(nested), "utf-8")

    with pytest.raises(ModelError, match=rf"{name} asks for custom code \(auto_map\)"):
        refuse_unsafe_folder(folder)


def test_a_config_that_is_no_json_is_refused(folder):
    (folder / "generation_config.json").write_text("{", "utf-8")

    with pytest.raises(ModelError, match=r"generation_config\.json is not JSON"):
        refuse_unsafe_folder(folder)


def test_python_in_a_model_folder_is_refused_before_it_runs(tiny_model_folder, tmp_path):
    from engine.backends.transformers import load_causal_model

    folder, canary = shutil.copytree(tiny_model_folder, tmp_path / "model"), tmp_path / "canary"
    (folder / "modeling_own.py").write_text(f"open({str(canary)!r}, 'w')\nclass Own: pass\n", "utf-8")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["auto_map"] = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM"), "modeling_own.Own")
    (folder / "config.json").write_text(json.dumps(config), "utf-8")

    with pytest.raises(ModelError):
        load_causal_model(folder)

    assert not canary.exists()


def test_one_flipped_bit_changes_the_fingerprint(folder):
    before = folder_fingerprint(folder)
    (folder / "model.safetensors").write_bytes(b"veights")

    assert folder_fingerprint(folder) != before
