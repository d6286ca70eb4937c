"""The sentence encoder, with random weights; and with the embedded model where it is at hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from data.errors import ModelError
from engine.embedded import EMBEDDED_ENCODER, embedded_folder
from engine.embeddings import Encoder

TEXTS = ["A dog runs over the wet grass.", "A dog", "", "The committee approved the annual budget after a long debate."]


@pytest.fixture(scope="module")
def tiny_encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch = pytest.importorskip("torch", reason="needs sagedesk[ml]")
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("tiny-encoder")
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    BertTokenizer(vocab_file=str(folder / "vocab.txt")).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    BertModel(config).save_pretrained(folder)
    return folder


def test_a_vector_has_length_one_and_does_not_depend_on_its_batch(tiny_encoder_folder: Path) -> None:
    together = Encoder.open(tiny_encoder_folder).vectors(TEXTS)
    alone = np.concatenate([Encoder.open(tiny_encoder_folder).vectors([text]) for text in TEXTS])

    assert together.shape == (4, 32)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_vectors_come_in_the_order_asked_and_equal_texts_are_encoded_once(tiny_encoder_folder: Path) -> None:
    encoder = Encoder.open(tiny_encoder_folder)

    first = encoder.vectors([TEXTS[0], TEXTS[3], TEXTS[0]])
    again = encoder.vectors([TEXTS[3]])

    np.testing.assert_array_equal(first[0], first[2])
    np.testing.assert_array_equal(first[1], again[0])
    assert not np.allclose(first[0], first[1])


def test_the_mean_is_over_the_words_and_not_over_the_padding(tiny_encoder_folder: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(tiny_encoder_folder)([TEXTS[1]], return_tensors="pt")
    with torch.inference_mode():
        hidden = AutoModel.from_pretrained(tiny_encoder_folder).eval()(**tokens).last_hidden_state[0].mean(dim=0)

    made = Encoder.open(tiny_encoder_folder).vectors(TEXTS)[1]

    np.testing.assert_allclose(made, (hidden / hidden.norm()).numpy(), atol=1e-5)


def test_no_texts_have_no_vectors(tiny_encoder_folder: Path) -> None:
    assert Encoder.open(tiny_encoder_folder).vectors([]).shape[0] == 0


def test_a_very_long_text_is_cut_and_not_refused(tiny_encoder_folder: Path) -> None:
    assert np.isfinite(Encoder.open(tiny_encoder_folder).vectors(["word " * 5000])).all()


def test_a_folder_that_brings_code_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"auto_map": {"AutoModel": "evil.Evil"}}))
    (tmp_path / "model.safetensors").write_bytes(b"")

    with pytest.raises(ModelError, match="auto_map"):
        Encoder.open(tmp_path)


def test_a_damaged_encoder_is_one_clear_line(tiny_encoder_folder: Path, tmp_path: Path) -> None:
    for file in tiny_encoder_folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"\x10\x00\x00")

    with pytest.raises(ModelError, match=r"cannot be loaded .*fetch the model again"):
        Encoder.open(tmp_path)


@pytest.mark.model
def test_the_embedded_encoder_knows_near_from_far() -> None:
    folder = embedded_folder(EMBEDDED_ENCODER)
    if folder is None:
        pytest.skip("the embedded encoder is not in the cache; `python -m engine.embedded` fetches it")
    encoder = Encoder.open(folder)

    cat, kitten, budget = encoder.vectors(
        ["A cat sleeps on the sofa.", "A kitten naps on the couch.", "The budget was approved."]
    )

    assert cat @ kitten > 0.6
    assert cat @ budget < 0.3
