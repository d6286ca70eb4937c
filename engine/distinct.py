"""Variety of a generator's texts: pure measures that show collapse early. Refuses to say why it happened.

Words are those of `engine.wording`. A measure is None if there is nothing to measure, never 0 for lack of texts.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations, pairwise
from statistics import fmean

from engine.wording import similarity, words


def distinct_n(texts: Sequence[str], n: int) -> float | None:
    """Distinct word n-grams as a share of all n-grams, 0..1; 1.0 means no repetition.

    Decreases with the amount of text: only compare equal numbers of texts.
    Source: Li et al. (2016), "A Diversity-Promoting Objective Function for Neural Conversation Models".
    """
    grams = [gram for text in texts for gram in _grams(words(text), n)]
    return len(set(grams)) / len(grams) if grams else None


def self_similarity(groups: Sequence[Sequence[str]]) -> float | None:
    """Mean stem similarity of pairs within groups, 0..1; a group holds the texts of one question and type."""
    pairs = [similarity(one, other) for group in groups for one, other in combinations(group, 2)]
    return fmean(pairs) if pairs else None


def opening_entropy(texts: Sequence[str], *, n: int = 3) -> float | None:
    """Shannon entropy of the first `n` words over its maximum, 0..1; 0.0 if all texts begin alike."""
    openings = Counter(words(text)[:n] for text in texts)
    if len(texts) < 2:
        return None
    entropy = -sum(count / len(texts) * math.log(count / len(texts)) for count in openings.values())
    return entropy / math.log(len(texts)) if entropy else 0.0


def _grams(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    if n == 2:
        return list(pairwise(tokens))
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
