"""The generator's chapter of docs/learning.md: tables and plot from what the stages found, and nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from data.records import VARIANT_TYPE_KEYS
from tests.bench.learning.generator import GENERATORS, HELD_OUT_QUESTIONS, SAMPLING
from tests.bench.learning.plot import Bar, Panel, svg
from tests.bench.learning.stages import found
from training.comparison import VARIETY_TEXTS

TITLES: Final[Mapping[str, str]] = {"base": "as shipped", "sft": "after SFT", "grpo": "after GRPO"}
PLOT: Final = "learning-generator.svg"
_SLICES: Final = ("all", *VARIANT_TYPE_KEYS)
_NOTES: Final = (
    (
        "Form matters most: when the prompt named the type before the item, or after only a few steps, the model wrote "
        "the same type whatever was asked. The short prompt gives the right option separately and first, and the type "
        "last, next to the reply."
    ),
    (
        "Options are learned in the order in which the prompt gives them; the desk shuffles them afterwards. Learning "
        "a shuffle would mean learning noise."
    ),
    (
        "What fails after SFT is mostly the form of another type (its closing question, an abstain option where none "
        "belongs or none where one does), options copied with mistakes or twice, and, for ordering, the arithmetic of "
        "the permutation."
    ),
    (
        "The judge was trained on mechanical faults, and variants that pass a contract have few of those, so nearly "
        "everything that passes is accepted. A judge trained on people's labels would reject more."
    ),
    (
        "A group teaches only when some of its replies pass and others do not, so GRPO trains on the types for which "
        "that was seen in training groups; the other types are its control. The held-out figures after SFT had been "
        "seen when the types were chosen."
    ),
    (
        "Training on all types at a learning rate of 2e-5 moved nothing in 27 steps (KL 0.01). The recipe here was "
        "stopped at its 45th step for lack of time; its duration includes a pause."
    ),
)
"""What was found and changed on the way to this recipe."""


def chapter(folder: Path, images: Path) -> Iterator[str]:
    """Markdown lines of the generators tried so far; the plot goes to `images`. Nothing before the first two."""
    generators = {name: found(folder, f"trial_{name}") for name in GENERATORS if _is_there(folder, f"trial_{name}")}
    if not _is_there(folder, "compare_sft"):
        return
    differences = dict(found(folder, "compare_sft"))
    if _is_there(folder, "compare_grpo"):
        differences |= found(folder, "compare_grpo")
    differences.pop("wall_s")
    (images / PLOT).write_text(_plot(generators), "utf-8")
    yield "## Generator"
    yield ""
    yield (
        f"The embedded model as shipped (with the desk's prompt and its demonstration), after supervised "
        f"fine-tuning (SFT), and after reinforcement from there (GRPO): {HELD_OUT_QUESTIONS} held-out questions, "
        f"one variant of each of the seven types, temperature {SAMPLING.temperature}, constrained decoding, the same "
        f"seeds for all. Intervals are 95 % bootstrap intervals over questions."
    )
    yield ""
    yield f"![Contract pass rate and accepted variants per 1,000 tokens, by type](images/{PLOT})"
    yield ""
    for name, title, form in (
        ("contract_pass_rate", "Contract pass rate", "{:.0%}"),
        ("accepted_per_1000_tokens", "Accepted variants per 1,000 generated tokens", "{:.2f}"),
    ):
        yield f"**{title}**"
        yield ""
        yield from _rates(generators, name, form)
        yield ""
    yield "**Differences**"
    yield ""
    yield "| | contract pass rate | accepted per 1,000 tokens |"
    yield "| --- | --- | --- |"
    for step, changes in differences.items():
        change = changes["all"]
        yield (
            f"| {step} | {_interval(change['contract_pass_rate'], '{:+.0%}')} "
            f"| {_interval(change['accepted_per_1000_tokens'], '{:+.2f}')} |"
        )
    yield ""
    yield from _expectations(generators, differences)
    yield ""
    yield (
        "**Variety and shortcuts** among the variants that pass their contract; variety is the mean over samples of "
        f"{VARIETY_TEXTS} texts"
    )
    yield ""
    yield from _variety(generators)
    yield ""
    yield "**Most frequent failures** of required checks, by generator (a reply may fail several)"
    yield ""
    for name, trial in generators.items():
        yield f"- {TITLES[name]}: {_most_failed(trial)}"
    yield ""
    yield "**How it was made**"
    yield ""
    yield from _making(folder)
    trials = (f"{TITLES[name]} {_minutes(trial['wall_s'])}" for name, trial in generators.items())
    yield f"- Trials: {', '.join(trials)}."
    yield "- Findings on the way:"
    yield from (f"  - {note}" for note in _NOTES)
    yield ""


def _is_there(folder: Path, stage: str) -> bool:
    return (folder / f"{stage}.json").exists()


def _making(folder: Path) -> Iterator[str]:
    sft, verifiers = found(folder, "sft"), found(folder, "verifiers")
    yield (
        f"- SFT: all weights, {sft['rows']:,} accepted variants of {sft['questions']} questions, {sft['tokens']:,} "
        f"tokens, 1 epoch, {sft['steps']} steps, validation loss {sft['best_validation_loss']:.3f}, "
        f"{_minutes(sft['trained_s'])}."
    )
    if _is_there(folder, "grpo"):
        grpo = found(folder, "grpo")
        settings = grpo["settings"]
        yield (
            f"- GRPO: {grpo['steps']} steps of {settings['gradient_accumulation_steps']} group of "
            f"{settings['num_generations']} replies, learning rate {settings['learning_rate']:g}, KL 0.02, types "
            f"{', '.join(grpo['types'])}, drawn from {grpo['prompts']} prompts, {_minutes(grpo['trained_s'])}. "
            f"{grpo['stop_reason'].capitalize() if grpo['stop_reason'] else 'No stop rule was met'}; probe "
            f"{grpo['probe_before']:.2f} before, {grpo['probe_after']:.2f} after (nats per token)."
        )
    for name, words in (("reward", "Reward verifier"), ("judge", "Judge")):
        row = verifiers[name]
        valid = row["targets"]["valid"]
        yield (
            f"- {words}: feature verifier, {row['labels']} mechanically labelled variants of {row['questions']} other "
            f"questions; out of fold on validity: balanced accuracy {valid['balanced_accuracy']:.2f}, "
            f"PR-AUC (failing variants) {valid['fail_pr_auc']:.2f}, calibration error {valid['ece']:.3f}."
        )


def _rates(generators: Mapping[str, Any], name: str, form: str) -> Iterator[str]:
    yield "| type | " + " | ".join(TITLES[generator] for generator in generators) + " |"
    yield "| --- |" + " --- |" * len(generators)
    for key in _SLICES:
        cells = []
        for generator in generators:
            row = generators[generator][key]
            interval = row["intervals"][name]
            value = form.format(row[name]) if row[name] is not None else "-"
            bounds = f" ({form.format(interval['low'])} to {form.format(interval['high'])})" if interval else ""
            cells.append(value + bounds)
        yield f"| {key} | " + " | ".join(cells) + " |"


def _expectations(generators: Mapping[str, Any], differences: Mapping[str, Any]) -> Iterator[str]:
    """What was expected before, and whether this run bears it out."""
    base, sft = (generators[name]["all"]["contract_pass_rate"] for name in ("base", "sft"))
    times = f"{sft / base:.1f} times" if base else "from none to some"
    holds = sft > 0 and sft >= 5 * base
    yield (
        f"- Expected: SFT raises the contract pass rate at least five-fold. {'It does' if holds else 'It does not'}: "
        f"{base:.0%} to {sft:.0%}, {times}."
    )
    expected = "- Expected: GRPO raises accepted variants per 1,000 tokens beyond the interval."
    if "grpo over sft" not in differences:
        yield f"{expected} Not measured in this run."
        return
    told = []
    for step, words in (
        ("grpo over sft", "over all types"),
        ("grpo over sft, trained types", "over the trained types"),
    ):
        change = differences[step]["all"]["accepted_per_1000_tokens"]
        beyond = change is not None and change["low"] > 0
        told.append(f"{words} it {'does' if beyond else 'does not'}, {_interval(change, '{:+.2f}')}")
    yield f"{expected} {'; '.join(told).capitalize()}."


def _variety(generators: Mapping[str, Any]) -> Iterator[str]:
    names = ("distinct_1", "distinct_2", "distinct_3", "opening_entropy")
    players = ("chance", "always_first", "longest_option", "most_overlap")
    yield "| | variants | " + " | ".join(name.replace("_", " ") for name in (*names, *players)) + " |"
    yield "| --- |" + " --- |" * (1 + len(names) + len(players))
    for generator in generators:
        row = generators[generator]["all"]
        cheats = row["shortcuts"] or {}
        values = [*(row[name] for name in names), *(cheats.get(name) for name in players)]
        cells = ["-" if value is None else f"{value:.2f}" for value in values]
        yield f"| {TITLES[generator]} | {row['contract_passed']} | " + " | ".join(cells) + " |"


def _most_failed(slices: Mapping[str, Any]) -> str:
    row = slices["all"]
    checks = sorted(row["failed_checks"].items(), key=lambda item: (-item[1], item[0]))[:5]
    unparsed = row["requested"] - row["parsed"]
    told = [f"`{check}` {count}" for check, count in checks] or ["nothing"]
    return f"{', '.join(told)}; {unparsed} of {row['requested']} replies did not parse"


def _interval(interval: Mapping[str, float] | None, form: str) -> str:
    if interval is None:
        return "-"
    mean, low, high = (form.format(interval[name]) for name in ("mean", "low", "high"))
    return f"{mean} ({low} to {high})"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes"


def _plot(generators: Mapping[str, Any]) -> str:
    panels = [
        Panel(title, _SLICES, [_bars(generators, key, name) for key in _SLICES])
        for name, title in (
            ("contract_pass_rate", "contract pass rate"),
            ("accepted_per_1000_tokens", "accepted variants per 1,000 generated tokens"),
        )
    ]
    return svg(panels, [TITLES[name] for name in generators])


def _bars(generators: Mapping[str, Any], key: str, name: str) -> Sequence[Bar]:
    bars = []
    for generator in generators:
        row = generators[generator][key]
        interval = row["intervals"][name] or {}
        bars.append(Bar(row[name], interval.get("low"), interval.get("high")))
    return bars
