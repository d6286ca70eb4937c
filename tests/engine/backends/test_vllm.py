import json
from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import pytest

from data.errors import BackendError, ModelError
from data.records import VARIANT_TYPE_KEYS
from engine.backends.protocol import Sampling
from engine.backends.vllm import VllmBackend
from engine.candidate import CandidateReply
from engine.prompts import GenerationRequest

SHORT = Sampling(max_new_tokens=12)


@pytest.fixture(scope="module")
def requests(sample_questions):
    return [
        GenerationRequest(f"g{number}", question, VARIANT_TYPE_KEYS[number % 7], 100 + number)
        for number, question in enumerate(sample_questions[:9])
    ]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"max_model_len": "many"}, "max_model_len"),
        ({"max_model_len": 0}, "max_model_len"),
        ({"gpu_memory_utilization": 2}, "gpu_memory_utilization"),
        ({"dtype": "int3"}, "dtype"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_setting_that_does_not_fit_is_named(settings, says):
    with pytest.raises(BackendError, match=f"backend vllm: setting {says}"):
        VllmBackend.open(settings)


@pytest.mark.model  # the backend loads torch before it looks for vLLM
def test_where_vllm_is_missing_the_way_to_a_worker_is_told():
    if find_spec("vllm") is not None:
        pytest.skip("vLLM is installed here")

    with pytest.raises(BackendError, match=r"vllm is not installed.*SAGEDESK_WORKER_PYTHON"):
        VllmBackend.open({})


def test_a_reply_that_ends_parses_has_the_options_of_its_type_and_the_layout_of_the_demonstration(
    vllm_backend, requests
):
    replies = list(vllm_backend.generate(requests, Sampling(max_new_tokens=600, temperature=1.0)))

    whole = [(request, reply) for request, reply in zip(requests, replies, strict=True) if not reply.failure]
    assert whole, "no reply came to its end"
    for request, reply in whole:
        candidate = CandidateReply.model_validate_json(reply.text)
        assert len(candidate.options) == (5 if request.variant_type == "critical" else 4)
        assert reply.text == json.dumps(json.loads(reply.text), ensure_ascii=False)


def test_another_seed_says_something_else(vllm_backend, requests):
    [first] = vllm_backend.generate(requests[:1], SHORT)
    [other] = vllm_backend.generate([replace(requests[0], seed=1)], SHORT)

    assert first.text != other.text


def test_greedy_needs_no_seed(vllm_backend, requests):
    greedy = replace(SHORT, temperature=0.0)

    [first] = vllm_backend.generate(requests[:1], greedy)
    [other] = vllm_backend.generate([replace(requests[0], seed=1)], greedy)

    assert first.text == other.text


def test_a_reply_without_an_end_is_truncated_and_keeps_its_text(vllm_backend, requests):
    [reply] = vllm_backend.generate(requests[:1], Sampling(max_new_tokens=3))

    assert (reply.failure, reply.generated_tokens) == ("truncated", 3)
    assert reply.text
    assert reply.prompt_tokens > 100
    assert "3 tokens" in reply.detail


def test_a_prompt_that_does_not_fit_is_an_error_of_its_own_request(vllm_backend, requests):
    endless = replace(requests[0], question=replace(requests[0].question, context="word " * 9000))

    replies = list(vllm_backend.generate([endless, requests[1]], SHORT))

    assert [reply.failure for reply in replies] == ["error", "truncated"]
    assert "max_model_len" in replies[0].detail


def test_opening_names_folder_and_fingerprint(vllm_backend, vllm_model_folder):
    assert vllm_backend.model.startswith(vllm_model_folder.name + "@")
    assert vllm_backend.supported_types() == set(VARIANT_TYPE_KEYS)


def test_a_length_that_the_model_does_not_take_is_one_line(vllm_model_folder):
    with pytest.raises(ModelError, match="max_model_len") as refusal:
        VllmBackend.open({"model": str(vllm_model_folder), "max_model_len": 100_000})

    assert "\n" not in str(refusal.value)
    assert "8192" in str(refusal.value)


def test_a_model_without_a_chat_template_is_refused_before_it_is_loaded(vllm_model_folder, tmp_path):
    import shutil

    folder = shutil.copytree(vllm_model_folder, tmp_path / "base-model")
    (folder / "chat_template.jinja").unlink()

    with pytest.raises(ModelError, match="no chat template"):
        VllmBackend.open({"model": str(folder)})


class EndedEngine:
    """Stands for an engine whose process a cancel or the kernel ended; vLLM tells it in one of two ways."""

    def __init__(self, engine, *, tells_by_raising):
        self._engine = engine
        self._tells_by_raising = tells_by_raising

    def get_tokenizer(self):
        return self._engine.get_tokenizer()

    def generate(self, prompts, sampling_params, *, use_tqdm):
        from vllm.v1.engine.exceptions import EngineDeadError

        if self._tells_by_raising:
            raise EngineDeadError
        aborted = SimpleNamespace(token_ids=[], text="", finish_reason="abort")
        return [SimpleNamespace(outputs=[aborted]) for _ in prompts]


@pytest.mark.parametrize("tells_by_raising", [True, False])
def test_the_end_of_its_process_ends_the_run_and_leaves_no_replies(vllm_backend, requests, tells_by_raising):
    ended = EndedEngine(vllm_backend._engine, tells_by_raising=tells_by_raising)

    with pytest.raises(BackendError, match="process ended"):
        list(VllmBackend(ended, model_name="tiny", longest=4096).generate(requests, SHORT))
