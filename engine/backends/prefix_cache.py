"""Cached states of shared prompt prefixes, so that a demonstration is read once and not for every request.

Owns the prefixes' keys and values, and assembling them into batches. Refuses models whose attention forgets (sliding
windows, recurrent layers), where a prefix cannot be separated from its sequence.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import torch

if TYPE_CHECKING:
    from transformers import DynamicCache, PreTrainedModel

# Seven types and the control of critical testing, for two sets of instructions.
_ENTRIES: Final = 16


class _States(NamedTuple):
    """One layer's states: (1, heads, tokens, width)."""

    keys: torch.Tensor
    values: torch.Tensor


class PrefixCache:
    """The states of one model's most recently used prefixes."""

    def __init__(self, model: "PreTrainedModel") -> None:
        self._model = model
        self._kept: OrderedDict[tuple[int, ...], list[_States]] = OrderedDict()

    @staticmethod
    def is_possible(model: "PreTrainedModel") -> bool:
        """Also false if transformers names its caches differently, as vLLM's does: prompts are then read whole."""
        from transformers import DynamicCache
        from transformers.cache_utils import DynamicLayer
        from transformers.modeling_outputs import BaseModelOutputWithPast

        if "cache" not in BaseModelOutputWithPast.__dataclass_fields__:
            return False
        layers = DynamicCache(config=model.config).layers
        return bool(layers) and all(type(layer) is DynamicLayer for layer in layers)

    def batch(self, prefixes: Sequence[tuple[int, ...]]) -> "DynamicCache":
        """A cache whose row i ends with the states of `prefixes[i]`; whatever comes before must be masked."""
        from transformers import DynamicCache

        longest = max(map(len, prefixes))
        rows = [self._states(prefix) if prefix else None for prefix in prefixes]
        pattern = next(states for states in rows if states is not None)
        layers = []
        for layer, (keys, values) in enumerate(pattern):
            shape = (len(prefixes), keys.shape[1], longest)
            batch_keys = keys.new_zeros(*shape, keys.shape[3])
            batch_values = values.new_zeros(*shape, values.shape[3])
            for row, states in enumerate(rows):
                if states is not None:
                    batch_keys[row, :, longest - len(prefixes[row]) :] = states[layer].keys[0]
                    batch_values[row, :, longest - len(prefixes[row]) :] = states[layer].values[0]
            layers.append((batch_keys, batch_values))
        return DynamicCache(layers)

    def _states(self, prefix: tuple[int, ...]) -> list[_States]:
        if prefix not in self._kept:
            with torch.inference_mode():
                tokens = torch.tensor([prefix], device=self._model.device)
                cache = self._model.base_model(input_ids=tokens, use_cache=True).cache
            self._kept[prefix] = [_States(layer.keys, layer.values) for layer in cache.layers]
            if len(self._kept) > _ENTRIES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(prefix)
        return self._kept[prefix]
