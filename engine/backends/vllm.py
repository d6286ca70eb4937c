"""Generation by vLLM in this process, for GPU workers: continuous batching, structured output, a seed a request.

Written against vLLM 0.29 to 0.33 (`LLM.generate` over token ids). Refuses unsafe folders (`engine.model_safety`).
Two runs on a GPU may differ in the last bits, so the same seed promises the same replies on the CPU backends only.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, Final

from data.errors import BackendError, ModelError
from data.records import VARIANT_TYPE_KEYS, VariantTypeKey
from engine.backends.protocol import GenerationRequest, Reply, Sampling
from engine.backends.reply_schema import reply_schema
from engine.embedded import model_folder
from engine.model_safety import folder_fingerprint
from engine.prompts import request_messages

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput, SamplingParams

# vLLM schedules inside a window; a window bounds the memory of what waits, and is the grain of progress.
_WINDOW: Final = 512


class VllmBackend:
    """Keeps one vLLM engine; `model` is the folder's name and the first digits of its fingerprint."""

    name: ClassVar[str] = "vllm"

    def __init__(self, engine: "LLM", *, model_name: str, longest: int) -> None:
        """`longest`: tokens of prompt and reply together."""
        self.model = model_name
        self._engine = engine
        self._longest = longest

    @classmethod
    def open(cls, settings: Mapping[str, object]) -> "VllmBackend":
        """`model`: folder or hub id; `max_model_len` (4096); `gpu_memory_utilization` (0.9); `dtype` (auto).

        Raises:
            BackendError: vLLM is not installed here, or finds no device.
            ModelError: the model is missing, unsafe or cannot be loaded.
        """
        try:
            from vllm import LLM
        except ImportError as exc:
            raise BackendError(
                f"backend vllm: {exc.name or 'vllm'} is not installed; install sagedesk[vllm] in a worker environment "
                f"and name its interpreter in SAGEDESK_WORKER_PYTHON"
            ) from exc
        named = settings.get("model")
        folder = model_folder(None if named is None else str(named))
        longest = int(str(settings.get("max_model_len") or 4096))
        try:
            engine = LLM(
                model=str(folder),
                trust_remote_code=False,
                load_format="safetensors",
                dtype=str(settings.get("dtype") or "auto"),
                max_model_len=longest,
                gpu_memory_utilization=float(str(settings.get("gpu_memory_utilization") or 0.9)),
                # the demonstrations of a type are the same for every question and stand first
                enable_prefix_caching=True,
            )
        except (ValueError, RuntimeError, OSError) as exc:
            reason = (str(exc).strip().splitlines() or [type(exc).__name__])[0]
            raise ModelError(f"vLLM cannot load {folder} ({reason}); try a smaller max_model_len or model") from exc
        return cls(engine, model_name=f"{folder.name}@{folder_fingerprint(folder)[:12]}", longest=longest)

    def supported_types(self) -> frozenset[VariantTypeKey]:
        return frozenset(VARIANT_TYPE_KEYS)

    def generate(self, requests: Iterable[GenerationRequest], sampling: Sampling) -> Iterator[Reply]:
        """Replies in order; vLLM makes its own batches."""
        pending = iter(requests)
        while window := list(islice(pending, _WINDOW)):
            yield from self._generate_window(window, sampling)

    def _generate_window(self, window: Sequence[GenerationRequest], sampling: Sampling) -> Iterator[Reply]:
        prompts = [self._prompt_tokens(request) for request in window]
        fitting = [i for i, prompt in enumerate(prompts) if len(prompt) + sampling.max_new_tokens <= self._longest]
        outputs: dict[int, RequestOutput] = {}
        if fitting:
            made = self._engine.generate(
                [{"prompt_token_ids": prompts[i]} for i in fitting],
                [_sampling_params(window[i], sampling) for i in fitting],
                use_tqdm=False,
            )
            outputs = dict(zip(fitting, made, strict=True))
        for index, request in enumerate(window):
            yield self._reply(request, len(prompts[index]), outputs.get(index), sampling)

    def _prompt_tokens(self, request: GenerationRequest) -> list[int]:
        tokenizer = self._engine.get_tokenizer()
        text = tokenizer.apply_chat_template(request_messages(request), add_generation_prompt=True, tokenize=False)
        return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)]

    def _reply(
        self, request: GenerationRequest, prompt_tokens: int, output: "RequestOutput | None", sampling: Sampling
    ) -> Reply:
        if output is None:
            detail = f"prompt and reply take more than {self._longest} tokens; raise max_model_len"
            return Reply(request.request_id, "", "error", detail, prompt_tokens, 0)
        completion = output.outputs[0]
        generated = len(completion.token_ids)
        if completion.finish_reason == "length":
            detail = f"no end within {sampling.max_new_tokens} tokens; allow more or use a stronger model"
            return Reply(request.request_id, completion.text, "truncated", detail, prompt_tokens, generated)
        if completion.finish_reason != "stop":
            detail = f"vLLM ended the request with {completion.finish_reason!r}"
            return Reply(request.request_id, completion.text, "error", detail, prompt_tokens, generated)
        return Reply(request.request_id, completion.text, "", "", prompt_tokens, generated)


def _sampling_params(request: GenerationRequest, sampling: Sampling) -> "SamplingParams":
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p if sampling.temperature > 0 else 1.0,
        max_tokens=sampling.max_new_tokens,
        seed=request.seed,
        structured_outputs=StructuredOutputsParams(
            json=reply_schema(request, sampling.max_new_tokens), disable_any_whitespace=True
        ),
    )
