"""Generation with a causal language model in this process: fp32 on the CPU, bf16 on a GPU if there is one.

Owns loading such a model safely and batched sampling with one seed per row. Constrained decoding (llguidance) makes
replies follow the schema: they can be parsed, though they need not make sense. Refuses unsafe folders.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from data.errors import ModelError, first_line
from data.records import VARIANT_TYPE_KEYS, VariantTypeKey
from engine.backends.protocol import Reply, Sampling
from engine.backends.reply_schema import grammar_schema_json
from engine.embedded import model_folder
from engine.model_safety import folder_fingerprint, refuse_unsafe_folder
from engine.prompts import GenerationRequest, request_messages
from engine.tuned_generator import is_tuned, prompt_version

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)

_BATCHES_A_WINDOW: Final = 4
# A shorter prefix is cheaper to read again than to keep and copy.
_SHORTEST_PREFIX: Final = 32


class _Prompt(NamedTuple):
    """`prefix`: tokens that all requests of a type begin with; () if they cannot be shared."""

    prefix: tuple[int, ...]
    rest: tuple[int, ...]

    @property
    def length(self) -> int:
        return len(self.prefix) + len(self.rest)


class TransformersBackend:
    """Keeps one model in memory; `model` is the folder's name with the first digits of its fingerprint."""

    name: ClassVar[str] = "transformers"

    def __init__(
        self,
        model: "PreTrainedModel",
        tokenizer: "PreTrainedTokenizerBase",
        *,
        model_name: str,
        batch_size: int = 16,
        is_constrained: bool = True,
        shares_prefixes: bool = True,
        is_tuned: bool = False,
    ) -> None:
        """`shares_prefixes`: read a type's demonstration, three quarters of a prompt, only once.

        `is_tuned`: use the short prompts that the model was tuned on.
        """
        from engine.backends.prefix_cache import PrefixCache

        self.model = model_name
        self.prompt_version = prompt_version(tuned=is_tuned)
        self._is_tuned = is_tuned
        self._model = model
        self._tokenizer = tokenizer
        self._batch_size = batch_size
        self._end_tokens = _end_tokens(model, tokenizer)
        self._prefixes = PrefixCache(model) if shares_prefixes and PrefixCache.is_possible(model) else None
        self._prefix_tokens: dict[str, tuple[int, ...]] = {}
        self._grammar_tokenizer = self._open_grammar_tokenizer() if is_constrained else None

    @classmethod
    def open(cls, settings: Mapping[str, object]) -> "TransformersBackend":
        """`model`: a folder or hub id, or None for the embedded one; `batch_size` (16); `constrained` (True).

        Raises:
            ModelError: the model is missing, unsafe or cannot be loaded.
        """
        named = settings.get("model")
        folder = model_folder(None if named is None else str(named))
        model, tokenizer = load_causal_model(folder)
        require_chat_template(tokenizer, folder)
        return cls(
            model,
            tokenizer,
            model_name=f"{folder.name}@{folder_fingerprint(folder)[:12]}",
            batch_size=int(str(settings.get("batch_size") or 16)),
            is_constrained=bool(settings.get("constrained", True)),
            is_tuned=is_tuned(folder),
        )

    def supported_types(self) -> frozenset[VariantTypeKey]:
        return frozenset(VARIANT_TYPE_KEYS)

    def generate(self, requests: Iterable[GenerationRequest], sampling: Sampling) -> Iterator[Reply]:
        """Replies in order; within a window of a few batches, prompts of similar length share a batch."""
        pending = iter(requests)
        while window := list(islice(pending, self._batch_size * _BATCHES_A_WINDOW)):
            prompts = [self._prompt(request) for request in window]
            tails: dict[int, list[int]] = {}
            fitting = [index for index, prompt in enumerate(prompts) if self._fits(prompt, sampling)]
            fitting.sort(key=lambda index: (len(prompts[index].rest), index))
            for start in range(0, len(fitting), self._batch_size):
                rows = fitting[start : start + self._batch_size]
                made = self._sample([window[i] for i in rows], [prompts[i] for i in rows], sampling)
                tails.update(zip(rows, made, strict=True))
            for index, request in enumerate(window):
                yield self._reply(request, prompts[index].length, tails.get(index), sampling)

    def _prompt(self, request: GenerationRequest) -> _Prompt:
        """Split after the demonstration, if the parts tokenise the same separately and joined."""
        messages = request_messages(request, is_tuned=self._is_tuned)
        text = str(self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))
        if self._prefixes is None:
            return _Prompt((), self._tokens(text))
        shared = str(self._tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=False, tokenize=False))
        prefix = self._prefix_tokens.get(shared)
        if prefix is None:
            prefix = self._tokens(shared)
            is_cut = text.startswith(shared) and self._tokens(text) == prefix + self._tokens(text[len(shared) :])
            prefix = prefix if is_cut and len(prefix) >= _SHORTEST_PREFIX else ()
            self._prefix_tokens[shared] = prefix
        return _Prompt(prefix, self._tokens(text[len(shared) :] if prefix else text))

    def _tokens(self, text: str) -> tuple[int, ...]:
        """Adds no special tokens: the template has written them, including the beginning-of-text token."""
        return tuple(int(token) for token in self._tokenizer(text, add_special_tokens=False).input_ids)

    def _sample(
        self, requests: Sequence[GenerationRequest], prompts: Sequence[_Prompt], sampling: Sampling
    ) -> list[list[int]]:
        """The generated tokens of each row, including its end token if there is one."""
        import torch
        from transformers import LogitsProcessorList

        from engine.backends.row_sampling import SeededRows

        prefixes = [prompt.prefix for prompt in prompts]
        widths = (max(map(len, prefixes)), max(len(prompt.rest) for prompt in prompts))
        filler = self._tokenizer.pad_token_id
        if filler is None:
            filler = min(self._end_tokens)
        tokens, mask = [], []
        for prompt in prompts:
            gaps = [[0] * (width - len(part)) for width, part in zip(widths, prompt, strict=True)]
            tokens.append([*(filler for _ in gaps[0]), *prompt.prefix, *(filler for _ in gaps[1]), *prompt.rest])
            mask.append([*gaps[0], *(1 for _ in prompt.prefix), *gaps[1], *(1 for _ in prompt.rest)])
        rows = SeededRows(
            [request.seed for request in requests],
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            end_tokens=self._end_tokens,
            matchers=self._matchers(requests, sampling),
        )
        shared = {} if self._prefixes is None or not any(prefixes) else {"cache": self._prefixes.batch(prefixes)}
        with torch.inference_mode():
            out = self._model.generate(  # type: ignore[operator]  # a mixin that transformers types loosely
                input_ids=torch.tensor(tokens, device=self._model.device),
                attention_mask=torch.tensor(mask, device=self._model.device),
                **shared,
                logits_processor=LogitsProcessorList([rows]),
                max_new_tokens=sampling.max_new_tokens,
                do_sample=False,
                num_beams=1,
                temperature=None,
                top_p=None,
                top_k=None,
                repetition_penalty=1.0,
                pad_token_id=filler,
                eos_token_id=sorted(self._end_tokens),
            )
        return [self._until_end(row) for row in out[:, sum(widths) :].tolist()]

    def _until_end(self, tokens: list[int]) -> list[int]:
        for position, token in enumerate(tokens):
            if token in self._end_tokens:
                return tokens[: position + 1]
        return tokens

    def _reply(
        self, request: GenerationRequest, prompt_tokens: int, tail: list[int] | None, sampling: Sampling
    ) -> Reply:
        if tail is None:
            detail = f"the prompt has {prompt_tokens} tokens, too many for this model; shorten the question"
            return Reply(request.request_id, "", "error", detail, prompt_tokens, 0)
        is_ended = bool(tail) and tail[-1] in self._end_tokens
        text = str(self._tokenizer.decode(tail, skip_special_tokens=True))
        if is_ended:
            return Reply(request.request_id, text, "", "", prompt_tokens, len(tail))
        detail = f"the reply has no end within {sampling.max_new_tokens} tokens; allow more or use a stronger model"
        return Reply(request.request_id, text, "truncated", detail, prompt_tokens, len(tail))

    def _fits(self, prompt: _Prompt, sampling: Sampling) -> bool:
        longest = getattr(self._model.config, "max_position_embeddings", None)
        return not isinstance(longest, int) or prompt.length + sampling.max_new_tokens <= longest

    def _open_grammar_tokenizer(self) -> "LLTokenizer | None":
        """None if llguidance is missing or cannot read the tokenizer: replies are then only parsed strictly."""
        try:
            from llguidance.hf import from_tokenizer
        except ImportError:
            logger.warning("llguidance is not installed: replies are generated without the schema constraint")
            return None
        width = int(self._model.get_output_embeddings().weight.shape[0])  # type: ignore[no-untyped-call]
        try:
            return from_tokenizer(self._tokenizer, n_vocab=width, eos_token=sorted(self._end_tokens))  # type: ignore[arg-type]
        except (ValueError, RuntimeError) as exc:
            logger.warning("model %s: its tokenizer does not support constrained decoding (%s)", self.model, exc)
            return None

    def _matchers(self, requests: Sequence[GenerationRequest], sampling: Sampling) -> "list[LLMatcher] | None":
        if self._grammar_tokenizer is None:
            return None
        from llguidance import LLMatcher

        schemas = [grammar_schema_json(r, sampling.max_new_tokens, is_tuned=self._is_tuned) for r in requests]
        return [LLMatcher(self._grammar_tokenizer, LLMatcher.grammar_from_json_schema(schema)) for schema in schemas]


def load_causal_model(folder: Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Model and tokenizer from a safetensors folder; fp32 on the CPU (bf16 is 5.7 times slower there), bf16 on a GPU.

    Raises:
        ModelError: the folder must not or cannot be loaded, or libraries are missing.
    """
    refuse_unsafe_folder(folder)
    try:
        import torch
        from safetensors import SafetensorError
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils.logging import disable_progress_bar
    except ImportError as exc:
        raise ModelError(f"loading {folder}: {exc.name} is not installed; install sagedesk[ml]") from exc
    disable_progress_bar()  # type: ignore[no-untyped-call]  # a job's log is a file
    begun = time.monotonic()
    is_gpu = torch.cuda.is_available()
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=torch.bfloat16 if is_gpu else torch.float32,
            trust_remote_code=False,
            use_safetensors=True,
            local_files_only=True,
        )
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as exc:
        reason = first_line(exc)
        raise ModelError(f"model folder {folder} cannot be loaded ({reason}); fetch or train it again") from exc
    if is_gpu:
        model.cuda()  # type: ignore[call-arg]
    logger.info("loaded %s in %.1f s on %s", folder, time.monotonic() - begun, model.device)
    return model, tokenizer  # from_pretrained leaves a model in evaluation mode


def load_tokenizer(folder: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer only. Raises ModelError if it cannot be read."""
    from transformers import AutoTokenizer

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
    except (OSError, ValueError, KeyError, TypeError) as exc:
        reason = first_line(exc)
        raise ModelError(f"model folder {folder}: its tokenizer cannot be read ({reason}); use another model") from exc
    return tokenizer


def require_chat_template(tokenizer: "PreTrainedTokenizerBase", folder: Path) -> None:
    """Raises ModelError if the model in `folder` has no chat template."""
    if tokenizer.chat_template is None:
        raise ModelError(f"model folder {folder} has no chat template; use an instruction-tuned model")


def _end_tokens(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> frozenset[int]:
    """Every token that ends a reply. Raises ModelError if the model defines none."""
    named = [tokenizer.eos_token_id, getattr(model.generation_config, "eos_token_id", None)]
    flat = [token for entry in named for token in (entry if isinstance(entry, list) else [entry])]
    ends = {int(token) for token in flat if token is not None}
    if not ends:
        raise ModelError("the model defines no end-of-text token, so its replies would never end; use another model")
    return frozenset(ends)
