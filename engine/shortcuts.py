"""Players that answer without understanding: a set on which one of them scores well gives its answers away."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from data.records import Variant
from engine.report_json import Count, Share
from engine.wording import content_stems


@dataclass(frozen=True, slots=True)
class ShortcutAccuracies:
    """Accuracies, 0..1, on `variants` questions; `chance` is that of guessing at random.

    A player that cannot decide between options guesses among them and is credited with the expected accuracy.
    """

    variants: Count
    chance: Share
    always_first: Share
    longest_option: Share
    most_overlap: Share


def shortcut_accuracies(variants: Sequence[Variant]) -> ShortcutAccuracies | None:
    """None without variants. `most_overlap` picks the option that shares most content words with the context."""
    if not variants:
        return None
    return ShortcutAccuracies(
        variants=len(variants),
        chance=fmean(1 / len(variant.options) for variant in variants),
        always_first=fmean(float(variant.answer_index == 0) for variant in variants),
        longest_option=fmean(_credit(variant, len) for variant in variants),
        most_overlap=fmean(_credit(variant, _shared_with(variant.context)) for variant in variants),
    )


def _credit(variant: Variant, score: Callable[[str], float]) -> float:
    scores = [score(option) for option in variant.options]
    best = [i for i, found in enumerate(scores) if found == max(scores)]
    return 1 / len(best) if variant.answer_index in best else 0.0


def _shared_with(context: str) -> Callable[[str], float]:
    in_context = content_stems(context)
    return lambda option: float(len(content_stems(option) & in_context))
