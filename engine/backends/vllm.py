"""Generation by vLLM in this process, for GPU workers: continuous batching, constrained replies, one seed per request.

Written for vLLM 0.29 to 0.33, tested with the CPU build of 0.32. Refuses unsafe folders (`engine.model_safety`) and
vLLM's usage reporting. GPU runs may differ in the last bits, so only on a CPU does a seed guarantee the replies.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from data.errors import BackendError, ModelError, first_line
from data.records import VARIANT_TYPE_KEYS, VariantTypeKey
from engine.backends.protocol import Reply, Sampling
from engine.backends.reply_schema import grammar_schema_json
from engine.embedded import model_folder
from engine.model_safety import folder_fingerprint
from engine.prompts import GenerationRequest, request_messages
from engine.tuned_generator import is_tuned, prompt_version

if TYPE_CHECKING:
    from vllm import LLM, RequestOutput, SamplingParams

# vLLM schedules within a window; its size limits the memory of waiting requests and is the step of progress.
_WINDOW: Final = 512
# The sample questions' prompts have 600 to 700 tokens; space for longer ones only costs memory when used.
_LONGEST: Final = 4096
_CPU_CACHE_BYTES: Final = 2 << 30
_ENDED: Final = (
    "backend vllm: its process ended while generating; see the run's log for the reason, then resume the run"
)


class VllmSettings(BaseModel):
    """The engine's settings in a run. `model`: a folder or hub id, or None for the embedded one.

    `max_model_len`: tokens of prompt and reply together; None for 4096 or the model's own limit. `dtype` and
    `enforce_eager` (no compilation: quicker start, slower generation): None for vLLM's choice on a GPU, and fp32 and
    eager on a CPU, where 16-bit arithmetic is slow and compiling takes a minute.
    """

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: str | None = None
    max_model_len: Annotated[int | None, Field(ge=1)] = None
    gpu_memory_utilization: Annotated[float, Field(gt=0, le=1)] = 0.9
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    enforce_eager: bool | None = None


class VllmBackend:
    """Keeps one vLLM engine; `model` is the folder's name with the first digits of its fingerprint."""

    name: ClassVar[str] = "vllm"

    def __init__(self, engine: "LLM", *, model_name: str, longest: int, is_tuned: bool = False) -> None:
        """`longest`: tokens of prompt and reply together. `is_tuned`: use the prompts the model was tuned on."""
        self.model = model_name
        self.prompt_version = prompt_version(tuned=is_tuned)
        self._is_tuned = is_tuned
        self._engine = engine
        self._longest = longest

    @classmethod
    def open(cls, settings: Mapping[str, object]) -> "VllmBackend":
        """Settings as in VllmSettings.

        Raises:
            BackendError: a setting is invalid, or vLLM is not installed or finds no device.
            ModelError: the model is missing, unsafe or cannot be loaded.
        """
        parsed = _parsed(settings)
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")  # read on vLLM's import, here and in its processes
        try:
            from transformers import AutoTokenizer
            from vllm import LLM
            from vllm.platforms import current_platform
        except ImportError as exc:
            raise BackendError(
                f"backend vllm: {exc.name or 'vllm'} is not installed; set up a worker environment (docs/worker.md) "
                f"and set SAGEDESK_WORKER_PYTHON to its interpreter"
            ) from exc
        if current_platform.is_unspecified():
            raise BackendError("backend vllm: there is no GPU here that vLLM can use; use the backend transformers")
        folder = model_folder(parsed.model)
        longest = parsed.max_model_len or min(_LONGEST, _positions(folder))
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
            if tokenizer.chat_template is None:
                raise ModelError(f"model folder {folder} has no chat template; use an instruction-tuned model")
            engine = LLM(
                model=str(folder),
                trust_remote_code=False,
                load_format="safetensors",
                max_model_len=longest,
                gpu_memory_utilization=parsed.gpu_memory_utilization,
                # a type's demonstration is the same for every question and comes first
                enable_prefix_caching=True,
                # the decoder our schema is written for; a request cannot choose it
                structured_outputs_config={"backend": "guidance"},
                **_device_options(parsed, is_cpu=current_platform.is_cpu()),
            )
        except (ValueError, RuntimeError, OSError) as exc:
            raise ModelError(
                f"vLLM cannot load {folder} ({_reason(exc)}); see the run's log; if memory is short, "
                f"use a smaller max_model_len or model"
            ) from exc
        return cls(
            engine,
            model_name=f"{folder.name}@{folder_fingerprint(folder)[:12]}",
            longest=longest,
            is_tuned=is_tuned(folder),
        )

    def supported_types(self) -> frozenset[VariantTypeKey]:
        return frozenset(VARIANT_TYPE_KEYS)

    def generate(self, requests: Iterable[GenerationRequest], sampling: Sampling) -> Iterator[Reply]:
        """Replies in order; vLLM does its own batching.

        Raises:
            BackendError: vLLM's process ended, for example for lack of memory.
        """
        pending = iter(requests)
        while window := list(islice(pending, _WINDOW)):
            yield from self._generate_window(window, sampling)

    def _generate_window(self, window: Sequence[GenerationRequest], sampling: Sampling) -> Iterator[Reply]:
        from vllm.v1.engine.exceptions import EngineDeadError

        prompts = [self._prompt_tokens(request) for request in window]
        fitting = [i for i, prompt in enumerate(prompts) if len(prompt) + sampling.max_new_tokens <= self._longest]
        outputs: dict[int, RequestOutput] = {}
        if fitting:
            try:
                made = self._engine.generate(
                    [{"prompt_token_ids": prompts[i]} for i in fitting],
                    [_sampling_params(window[i], sampling, is_tuned=self._is_tuned) for i in fitting],
                    use_tqdm=False,
                )
            except EngineDeadError as exc:
                raise BackendError(_ENDED) from exc
            if any(output.outputs[0].finish_reason == "abort" for output in made):
                raise BackendError(_ENDED)  # as replies they would be kept, and a resumed run would not ask again
            outputs = dict(zip(fitting, made, strict=True))
        for index, request in enumerate(window):
            yield self._reply(request, len(prompts[index]), outputs.get(index), sampling)

    def _prompt_tokens(self, request: GenerationRequest) -> list[int]:
        """Adds no special tokens: the template has written them, including the beginning-of-text token."""
        tokenizer = self._engine.get_tokenizer()
        messages = request_messages(request, is_tuned=self._is_tuned)
        text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return [int(token) for token in tokenizer.encode(text, add_special_tokens=False)]

    def _reply(
        self, request: GenerationRequest, prompt_tokens: int, output: "RequestOutput | None", sampling: Sampling
    ) -> Reply:
        if output is None:
            detail = f"prompt and reply have more than {self._longest} tokens; raise max_model_len"
            return Reply(request.request_id, "", "error", detail, prompt_tokens, 0)
        completion = output.outputs[0]
        generated = len(completion.token_ids)
        if completion.finish_reason == "length":
            detail = f"the reply has no end within {sampling.max_new_tokens} tokens; allow more or use a stronger model"
            return Reply(request.request_id, completion.text, "truncated", detail, prompt_tokens, generated)
        if completion.finish_reason != "stop":
            detail = f"vLLM ended the request with {completion.finish_reason!r}"
            return Reply(request.request_id, completion.text, "error", detail, prompt_tokens, generated)
        return Reply(request.request_id, completion.text, "", "", prompt_tokens, generated)


def _sampling_params(request: GenerationRequest, sampling: Sampling, *, is_tuned: bool) -> "SamplingParams":
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    schema = grammar_schema_json(request, sampling.max_new_tokens, is_tuned=is_tuned)
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p if sampling.temperature > 0 else 1.0,
        max_tokens=sampling.max_new_tokens,
        seed=request.seed,
        structured_outputs=StructuredOutputsParams(json=schema),
    )


def _device_options(settings: VllmSettings, *, is_cpu: bool) -> dict[str, Any]:
    if not is_cpu:
        return {"dtype": settings.dtype or "auto", "enforce_eager": bool(settings.enforce_eager)}
    return {
        "dtype": settings.dtype or "float32",
        "enforce_eager": settings.enforce_eager is not False,
        # gpu_memory_utilization would be a share of main memory; VLLM_CPU_KVCACHE_SPACE overrides it
        "kv_cache_memory_bytes": _CPU_CACHE_BYTES,
        # a prompt read in two steps would rewind its request's generator, which PyTorch's CPU generator cannot do
        "enable_chunked_prefill": False,
    }


def _parsed(settings: Mapping[str, object]) -> VllmSettings:
    """Raises BackendError naming the invalid setting."""
    try:
        return VllmSettings.model_validate({name: value for name, value in settings.items() if value is not None})
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "settings"
        raise BackendError(f"backend vllm: setting {where}: {first['msg']}; correct it") from exc


def _positions(folder: Path) -> int:
    """How many tokens the model takes according to its config; unlimited if it does not say."""
    config: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    stated = config.get("max_position_embeddings")
    return stated if isinstance(stated, int) else _LONGEST


def _reason(exc: Exception) -> str:
    """One line; the first line of a pydantic error only gives a count."""
    if isinstance(exc, ValidationError):
        return str(exc.errors(include_url=False, include_input=False)[0]["msg"]).splitlines()[0]
    return first_line(exc)
