import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from annotation.server import Credentials, LabelStudioServer, new_credentials

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def tiny_model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal language model with random weights, made in half a second: it knows nothing, and must not matter."""
    torch = pytest.importorskip("torch", reason="needs sagedesk[ml]")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = ['{"context": "", "options": ["", ""], "answer": 0}', "Answer: yes Answer: no"] * 5
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>", unk_token="<|endoftext|>"
    )
    fast.chat_template = CHAT_TEMPLATE
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        initializer_range=0.3,  # with the usual 0.02 every token is about as likely and nothing can be told apart
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@dataclass(frozen=True, slots=True)
class RunningLabelStudio:
    """A real server with an empty database, for the whole run."""

    url: str
    credentials: Credentials
    server: LabelStudioServer

    @property
    def token(self) -> str:
        return self.credentials.token


@pytest.fixture(scope="session")
def label_studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLabelStudio]:
    default = Path(__file__).parents[1] / ".venv-label-studio" / "bin" / "python"
    python = Path(os.environ.get("SAGEDESK_LABEL_STUDIO_PYTHON", default))
    if not python.exists():
        pytest.skip(f"no Label Studio environment at {python}; `make label-studio` makes it")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    credentials = new_credentials()
    server = LabelStudioServer(python, tmp_path_factory.mktemp("label-studio"), port, credentials)
    server.start()
    try:
        server.wait_ready(timeout_s=600)
        yield RunningLabelStudio(server.url, credentials, server)
    finally:
        server.stop()
