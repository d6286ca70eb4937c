import os

# Before anything imports torch: its threads cost a tiny model ten times more than they bring while others work here.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from engine.backends.vllm import VllmBackend

from annotation.server import Credentials, LabelStudioServer, new_credentials

SAMPLE = Path(__file__).parents[1] / "data" / "samples" / "questions.jsonl"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tiny models need torch, which takes seconds to load: what uses them counts as a test with a model."""
    for item in items:
        if isinstance(item, pytest.Function) and {"tiny_model_folder", "tiny_encoder_folder"} & {*item.fixturenames}:
            item.add_marker(pytest.mark.model)


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
        vocab_size=1200,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    texts = ['{"context": "", "options": ["", ""], "answer": 0}', "Answer: yes Answer: no"] * 5
    texts += SAMPLE.read_text("utf-8").splitlines()  # a few hundred words, so that prompts are not spelt out
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


@pytest.fixture(scope="session")
def vllm_model_folder(tiny_model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with attention heads of 32, the smallest that vLLM takes on a CPU."""
    pytest.importorskip("vllm", reason="vLLM has an environment of its own (docs/worker.md); it is not installed here")
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = shutil.copytree(tiny_model_folder, tmp_path_factory.mktemp("vllm") / "tiny-model")
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig.from_pretrained(tiny_model_folder, head_dim=32)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def vllm_backend(vllm_model_folder: Path) -> "VllmBackend":
    """One engine for all tests: it takes half a minute to start."""
    from engine.backends.vllm import VllmBackend

    return VllmBackend.open({"model": str(vllm_model_folder)})


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
        pytest.skip(f"no Label Studio environment at {python}; `make setup` makes it")
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


NOWHERE = SimpleNamespace(status=404, body=b"no such path", headers={}, wait_s=0.0)


class Endpoint:
    """A real HTTP server on loopback.

    `answer(body, requests before)` gives an object with `status`, `body`, `headers` and `wait_s` before it is sent.
    """

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.url = f"http://127.0.0.1:{server.server_port}/v1"
        self.answer: Callable[[dict, int], Any]
        self.bodies: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self.at_once = 0
        self.lock = threading.Lock()
        self.closing = threading.Event()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with held.lock:
                before = len(held.bodies)
                held.bodies.append(content)
                held.headers.append(dict(self.headers))
                held.at_once += 1
                held.most_at_once = max(held.most_at_once, held.at_once)
            said = held.answer(content, before) if self.path == "/v1/chat/completions" else NOWHERE
            held.closing.wait(said.wait_s)
            with held.lock:
                held.at_once -= 1
            self.send_response(said.status)
            for name, value in {"Content-Length": str(len(said.body)), **said.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class names it so)
            """Silence."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that gave up waiting is part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    held = Endpoint(server)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield held
    held.closing.set()
    server.shutdown()
    thread.join()
    server.server_close()


PATIENCE_MS = 60_000
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """An installed Chromium or Chrome, else playwright's own download; never a skip."""
    from playwright.sync_api import Error, expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)  # a busy machine draws a page in seconds

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    installed = next((path for name in names if (path := shutil.which(name))), None)
    with sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(executable_path=installed, args=CHROMIUM_FLAGS)
        except Error as exc:
            pytest.fail(f"no browser for the browser tests ({str(exc).splitlines()[0]}); run `make setup`")
        yield opened
        opened.close()
