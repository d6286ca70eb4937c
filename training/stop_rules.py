"""When a GRPO training stops before its last step, and why, in words. Pure: a run's figures in, a reason out.

Rules compare moving averages, never single steps: a step has only a few groups of a few types, and they vary.
A figure without a natural bound (length, entropy, variety) is compared with its own beginning.
The rules are those of ADR 9; the numbers were chosen by hand.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

StepFigures = Mapping[str, float | None]
"""`step`, and figures under the run's metric names; a step may have several entries, each with different figures."""


@dataclass(frozen=True, slots=True)
class StopRules:
    """`window`: length of the moving average in steps; nothing stops before it is full.

    `most_kl` and `probe_tolerance` are in nats per token, `reward_rise` in reward. The `..._ratio` rules compare with
    the first window. A rule that is None never stops.
    """

    window: int = 10
    most_kl: float | None = 0.5
    least_entropy_ratio: float | None = 0.25
    most_length_ratio: float | None = 1.75
    least_distinct_ratio: float | None = 0.5
    most_zero_variance_share: float | None = 0.95
    probe_tolerance: float | None = 0.05
    reward_rise: float = 0.02
    unscorable_steps: int = 5


def reason_to_stop(history: Sequence[StepFigures], rules: StopRules) -> str | None:
    """One sentence with the figures that broke a rule; None if none is broken.

    Args:
        history: in step order, from the first step on, even after a resume.
    """
    return _beyond_bounds(history, rules) or _far_from_start(history, rules) or _proxy_rises_probe_falls(history, rules)


def is_unscorable(history: Sequence[StepFigures], rules: StopRules) -> bool:
    """Whether the verifier gave no verdict at all in the last `unscorable_steps` steps that used it."""
    shares = _values(history, "judged_share")[-rules.unscorable_steps :]
    return len(shares) == rules.unscorable_steps and not any(shares)


def _beyond_bounds(history: Sequence[StepFigures], rules: StopRules) -> str | None:
    kl = _average(history, "kl", rules.window)
    if kl is not None and rules.most_kl is not None and kl > rules.most_kl:
        return f"the KL divergence from the start is {kl:.2f} nats per token, above the limit of {rules.most_kl:g}"
    zero = _average(history, "zero_variance_share", rules.window)
    if zero is not None and rules.most_zero_variance_share is not None and zero > rules.most_zero_variance_share:
        return f"{zero:.0%} of the groups in the last {rules.window} steps gave no training signal: equal rewards"
    return None


def _far_from_start(history: Sequence[StepFigures], rules: StopRules) -> str | None:
    for name, least, most, words in (
        ("entropy", rules.least_entropy_ratio, None, "the entropy fell from {:.3f} to {:.3f} nats per token"),
        ("distinct_2", rules.least_distinct_ratio, None, "distinct bigrams in a group fell from {:.2f} to {:.2f}"),
        ("completion_tokens", None, rules.most_length_ratio, "replies grew from {:.0f} to {:.0f} tokens"),
    ):
        values = _values(history, name)
        if len(values) < 2 * rules.window:
            continue
        first, last = fmean(values[: rules.window]), fmean(values[-rules.window :])
        if (least is not None and last < least * first) or (most is not None and last > most * first):
            return words.format(first, last)
    return None


def _proxy_rises_probe_falls(history: Sequence[StepFigures], rules: StopRules) -> str | None:
    """Compares reward and probe since the best probe (ADR 9)."""
    probes = [(int(entry["step"] or 0), value) for entry in history if (value := _number(entry, "probe")) is not None]
    if rules.probe_tolerance is None or len(probes) < 2:
        return None
    best_step, best = max(probes, key=lambda probe: probe[1])
    _, latest = probes[-1]
    rewards = [(int(entry["step"] or 0), value) for entry in history if (value := _number(entry, "reward")) is not None]
    # a probe at step 0 has no reward before it, so the first window is used
    before = [value for step, value in rewards if step <= max(best_step, rules.window)][-rules.window :]
    now = [value for step, value in rewards if step > best_step][-rules.window :]
    if best - latest <= rules.probe_tolerance or len(now) < rules.window or not before:
        return None
    rise = fmean(now) - fmean(before)
    if rise <= rules.reward_rise:
        return None
    return (
        f"the reward rose from {fmean(before):.2f} to {fmean(now):.2f} while the probe of human-labelled items "
        f"fell from {best:.2f} to {latest:.2f}: the policy is exploiting the verifier"
    )


def _average(history: Sequence[StepFigures], name: str, window: int) -> float | None:
    """Of the last window; None before one is full."""
    values = _values(history, name)
    return fmean(values[-window:]) if len(values) >= window else None


def _values(history: Sequence[StepFigures], name: str) -> list[float]:
    return [value for entry in history if (value := _number(entry, name)) is not None]


def _number(entry: StepFigures, name: str) -> float | None:
    value = entry.get(name)
    return value if value is not None and math.isfinite(value) else None
