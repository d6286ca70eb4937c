"""Sentence vectors from a frozen encoder (such as all-MiniLM-L6-v2), on the CPU. Refuses to train or download.

Mean over the last layer's tokens, normalised to length 1: the pooling the model was trained with
(Reimers and Gurevych 2019, sentence-transformers/all-MiniLM-L6-v2).
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from data.errors import ModelError, first_line
from engine.model_safety import folder_fingerprint, refuse_unsafe_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Vectors = NDArray[np.float32]

_MOST_THREADS: Final = 2
_BATCH: Final = 32
_MOST_TOKENS: Final = 256
"""The length all-MiniLM-L6-v2 was trained on; longer texts are truncated."""
_MOST_CACHED: Final = 50_000
"""Number of cached vectors: 77 MB at 384 dimensions."""


class Encoder:
    """A loaded encoder with a cache of its vectors; `fingerprint` identifies its files."""

    def __init__(self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", *, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self._model = model
        self._tokenizer = tokenizer
        self._known: dict[str, Vectors] = {}

    @classmethod
    def open(cls, folder: Path) -> "Encoder":
        """Load from a local folder in fp32.

        Raises:
            ModelError: torch or transformers is missing, or the folder is unsafe or has no encoder.
        """
        refuse_unsafe_folder(folder)
        try:
            import torch
            from safetensors import SafetensorError
            from transformers import AutoModel, AutoTokenizer
            from transformers.utils.logging import disable_progress_bar
        except ImportError as exc:
            raise ModelError(f"opening encoder {folder}: {exc.name} is not installed; install sagedesk[ml]") from exc
        disable_progress_bar()  # type: ignore[no-untyped-call]
        torch.set_num_threads(min(_MOST_THREADS, torch.get_num_threads()))
        try:
            tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            model = AutoModel.from_pretrained(
                str(folder), local_files_only=True, dtype=torch.float32, use_safetensors=True
            )
        except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as exc:
            reason = first_line(exc)
            raise ModelError(f"encoder folder {folder} cannot be loaded ({reason}); fetch the model again") from exc
        model.eval()
        return cls(model, tokenizer, fingerprint=folder_fingerprint(folder))

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """(len(texts), width), each row of length 1; blank texts have vectors too."""
        if len(self._known) > _MOST_CACHED:
            self._known.clear()
        self.learn(texts)
        return np.stack([self._known[text] for text in texts]) if texts else np.zeros((0, 0), np.float32)

    def learn(self, texts: Iterable[str]) -> None:
        """Encode the new ones, batching texts of similar length to save padding."""
        unknown = sorted({text for text in texts if text not in self._known}, key=lambda text: (len(text), text))
        for start in range(0, len(unknown), _BATCH):
            batch = unknown[start : start + _BATCH]
            for text, vector in zip(batch, self._encode(batch), strict=True):
                self._known[text] = vector

    def _encode(self, texts: Sequence[str]) -> Vectors:
        import torch

        tokens = self._tokenizer(
            list(texts), padding=True, truncation=True, max_length=_MOST_TOKENS, return_tensors="pt"
        )
        with torch.inference_mode():
            hidden = self._model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9)
            unit = torch.nn.functional.normalize(pooled, dim=1)
        vectors: Vectors = unit.numpy()
        return vectors
