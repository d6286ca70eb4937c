"""The verifier's chapter of docs/learning.md, from what its stages left: tables, plots, and what they say in words."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.bench.learning.language import EPOCHS, TRAININGS
from tests.bench.learning.line_plot import Curves, curves_svg
from tests.bench.learning.plot import Bar
from tests.bench.learning.stages import found
from tests.bench.learning.verifier import ARMS, LABELS
from tests.bench.learning.verifier_figures import TARGETS
from tests.bench.learning.verifier_rows import ROW_SETS

CURVES_PLOT: Final = "learning-verifier.svg"
QUEUE_PLOT: Final = "learning-queue.svg"
_MEASURES: Final[Mapping[str, str]] = {
    "balanced_accuracy": "Balanced accuracy",
    "fail_pr_auc": "PR-AUC (failing variants)",
    "roc_auc": "ROC-AUC",
    "ece": "Calibration error (ECE)",
}
_SETS: Final[Mapping[str, str]] = {"all": "every fault", "unseen": "faults that the contract lets through"}
_ARMS: Final[Mapping[str, str]] = {
    "random": "random order",
    "queue": "the queue's order",
    "uncertainty": "uncertainty alone",
}


def chapter(folder: Path, images: Path) -> Iterator[str]:
    """Markdown lines; plots go to `images`. Each part is there once its stages have been run."""
    if not (folder / "verifier_curve.json").exists():
        return
    yield "## Verifier"
    yield ""
    yield from _curve(folder, images)
    if _queue_files(folder):
        yield from _queue(folder, images)
    if (folder / "verifier_language.json").exists():
        yield from _language(folder)


def _curve(folder: Path, images: Path) -> Iterator[str]:
    curve, rows = found(folder, "verifier_curve"), found(folder, "verifier_features")["sets"]
    (images / CURVES_PLOT).write_text(_curves_plot(curve), "utf-8")
    yield "### The feature verifier by number of labels"
    yield ""
    yield (
        f"There are two sets of rows. *Every fault*: {rows['all']['rows']:,} rows, half of them published variants, "
        f"half corrupted. The contract alone catches most of these corruptions "
        f"({rows['all']['test_contract_passes']} of the {rows['all']['test_rows']:,} test rows pass it), and in the "
        f"desk nobody is asked about what it catches. *Faults that the contract lets through*: "
        f"{rows['unseen']['rows']:,} rows, all of which pass it, half of them corrupted, in equal numbers within each "
        f"type: closer to what people see in the queue. {_faults(rows['unseen']['by_corruption'])}"
    )
    yield ""
    yield (
        "Labels are drawn at random from 640 questions, five draws per size, with smaller draws nested in larger ones; "
        "the last line uses all of them. The test rows are fixed and come from 160 other questions. The verifier is "
        "calibrated on its own labels, out of fold. *majority* predicts the base rate; *contract alone* predicts valid "
        "if no required check fails. Brackets give 95 % bootstrap intervals over test questions and draws."
    )
    yield ""
    yield f"![The feature verifier by number of labels](images/{CURVES_PLOT})"
    yield ""
    for name in ROW_SETS:
        one = curve[name]
        yield (
            f"**{_SETS[name].capitalize()}** ({one['test_rows']:,} test rows of {one['test_questions']} questions; "
            f"holds: {_base_rates(one['majority'])})"
        )
        yield ""
        for measure, title in _MEASURES.items():
            lines = [("majority", one["majority"])]
            lines += [("contract alone", one["contract"])] if name == "all" else []
            lines += [(f"{int(labels):,} labels", it["targets"]) for labels, it in one["labels"].items()]
            yield from _table(title, measure, lines)
    yield _curve_words(curve)
    yield ""


def _curve_words(curve: Mapping[str, Any]) -> str:
    every, unseen = curve["all"]["labels"], curve["unseen"]["labels"]
    contract = curve["all"]["contract"]["valid"]["balanced_accuracy"]["mean"]
    above = [labels for labels, it in every.items() if it["targets"]["valid"]["balanced_accuracy"]["low"] > contract]
    beyond = f"from {int(above[0]):,} labels on" if above else "at no size"
    fewest, most = next(iter(unseen)), list(unseen)[-1]
    aucs = [
        f"{unseen[labels]['targets'][target]['roc_auc']['mean']:.2f}"
        for target in ("LC", "valid")
        for labels in (fewest, most)
    ]
    seconds = ", ".join(f"{it['cpu_s_each']:.1f} s for {int(labels):,}" for labels, it in every.items())
    return (
        f"On every fault, the verifier beats the contract alone on validity, beyond the interval, {beyond}: most of "
        f"this set is decided by the contract, and the mechanical second right option is easy to spot. Among the "
        f"faults that the contract lets through, wrong keys are the hard ones: from {int(fewest):,} labels to all "
        f"{int(most):,} ROC-AUC goes from {aucs[0]} to {aucs[1]} on LC and from {aucs[2]} to {aucs[3]} on validity. "
        f"Word overlap and cosine similarity say little about which ending follows, and more labels of the same kind "
        f"do not change that. CPU time to train and to judge the test rows, without computing features: {seconds}. "
        f"Zero-shot results of the embedded language model are below, on a subset of the test rows."
    )


def _queue(folder: Path, images: Path) -> Iterator[str]:
    by_set = {name: found(folder, file) for name, file in _queue_files(folder).items()}
    (images / QUEUE_PLOT).write_text(_queue_plot(by_set), "utf-8")
    any_set = next(iter(by_set.values()))
    rounds = any_set["rounds"]
    yield "### The queue's order against random order"
    yield ""
    yield (
        f"All start from the same {rounds[0]['labels']} random labels and add "
        f"{rounds[1]['labels'] - rounds[0]['labels']} per round, with {any_set['repeats']} repeats. The queue's order "
        f"is the desk's rule with the current round's verifier: {any_set['blind_share']:.0%} blind at random places, "
        f"the rest by how close any dimension is to one half; uncertainty alone is the same without the blind share. "
        f"Differences are paired, against random order with the same number of labels on the same test rows, with 95 % "
        f"intervals over test questions and repeats. The intervals are not corrected for multiple comparisons, so a "
        f"few exclude zero by chance."
    )
    yield ""
    yield f"![Balanced accuracy and ROC-AUC of validity by number of labels and order](images/{QUEUE_PLOT})"
    yield ""
    for name, told in by_set.items():
        yield f"**{_SETS[name].capitalize()}** ({told['pool_rows']:,} rows to label, {told['test_rows']:,} test rows)"
        yield ""
        for measure in ("balanced_accuracy", "roc_auc"):
            yield from _queue_table(told["rounds"], measure)
        yield from _queue_dimensions(told["rounds"][-1])
        yield _queue_words(told["rounds"])
        yield ""


def _queue_files(folder: Path) -> Mapping[str, str]:
    files = {name: f"verifier_queue_{name}" for name in ROW_SETS}
    return {name: file for name, file in files.items() if (folder / f"{file}.json").exists()}


def _queue_table(rounds: Sequence[Mapping[str, Any]], measure: str) -> Iterator[str]:
    head = " | ".join(_ARMS[arm] for arm in ARMS)
    yield f"| {_MEASURES[measure]} of validity | {head} | queue - random | uncertainty - random |"
    yield "| --- |" + " --- |" * (len(ARMS) + 2)
    for place, one in enumerate(rounds):
        cells = [f"{one['arms'][arm]['valid'][measure]['mean']:.3f}" for arm in ARMS]
        # the first round's labels are the same
        changes = [_signed(one["over_random"][arm]["valid"][measure]) for arm in ("queue", "uncertainty")]
        yield f"| {one['labels']} labels | " + " | ".join(cells + (changes if place else ["-", "-"])) + " |"
    yield ""


def _queue_dimensions(last: Mapping[str, Any]) -> Iterator[str]:
    yield f"| Queue - random at {last['labels']} labels | " + " | ".join(_MEASURES.values()) + " |"
    yield "| --- |" + " --- |" * len(_MEASURES)
    for target in TARGETS:
        cells = [_signed(last["over_random"]["queue"][target][measure]) for measure in _MEASURES]
        yield f"| {target} | " + " | ".join(cells) + " |"
    yield ""


def _queue_words(rounds: Sequence[Mapping[str, Any]]) -> str:
    """In how many rounds after the first a difference lies beyond its interval, and what was labelled."""
    later = rounds[1:]
    parts = []
    for arm in ("queue", "uncertainty"):
        counts = []
        for measure in ("balanced_accuracy", "roc_auc"):
            changes = [one["over_random"][arm]["valid"][measure] for one in later]
            better, worse = sum(it["low"] > 0 for it in changes), sum(it["high"] < 0 for it in changes)
            counts.append(f"{_MEASURES[measure]} better in {better} and worse in {worse}")
        parts.append(f"{_ARMS[arm]}, {', '.join(counts)}")
    failing = rounds[-1]["failing"]
    shares = ", ".join(f"{_ARMS[arm]} {failing[arm]:.0%}" for arm in ARMS)
    return (
        f"Rounds in which the interval excludes zero, out of {len(later)} after the first: {'; '.join(parts)}. Share "
        f"of failing variants among the {rounds[-1]['labels']} labels: {shares}."
    )


def _language(folder: Path) -> Iterator[str]:
    told = found(folder, "verifier_language")
    yield "### The embedded language model as verifier"
    yield ""
    yield (
        f"SmolLM2-135M as shipped and, where measured, with all weights trained, on {told['rows']} of the test rows "
        f"({told['questions']} questions, every fault); all other lines in these tables use the same rows and one draw "
        f"of labels. A fifth of the labelled questions is held out for early stopping, and for calibration if it has "
        f"enough labels; the feature verifier learns from all of them."
    )
    yield ""
    for measure, title in _MEASURES.items():
        yield from _table(title, measure, [(_verifier_name(name), one) for name, one in told["verifiers"].items()])
    for name, one in told["language"].items():
        yield f"- {_verifier_name(name)}: {_how(one)}; {_base_rate_words(told, name)}."
    wanted = ["zero-shot era", "zero-shot ira", *(f"{method} {labels}" for method, labels in TRAININGS)]
    missing = [_verifier_name(name) for name in wanted if name not in told["language"]]
    if missing:
        yield (
            f"- Not measured in this run, for lack of time on a shared machine: {', '.join(missing)}. A complete "
            f"`make bench-learning` runs them."
        )
    yield ""


def _how(one: Mapping[str, Any]) -> str:
    if "steps" not in one:
        return f"{one['cpu_s'] / 60:.0f} CPU minutes, {one['wall_s'] / 60:.0f} minutes in total"
    return (
        f"{one['rows']} rows, {EPOCHS} epoch, {one['steps']} steps, {one['training_cpu_s'] / 60:.0f} CPU minutes of "
        f"training, {one['cpu_s'] / 60:.0f} including the test rows, {one['wall_s'] / 60:.0f} minutes in total; best "
        f"validation loss {_loss(one['best_validation_loss'])} (a coin flip between yes and no has 0.693)"
    )


def _base_rate_words(told: Mapping[str, Any], name: str) -> str:
    """Whether it ranks validity beyond its interval, and how far its probabilities move at all."""
    auc = told["verifiers"][name]["valid"]["roc_auc"]
    holds = auc["low"] > 0.5
    words = (
        f"P(valid) has mean {told['mean'][name]['valid']:.3f} and standard deviation "
        f"{told['spread'][name]['valid']:.3f} over the rows; its ranking of validity is "
        f"{'' if holds else 'not '}better than chance"
    )
    if name in told["over_zero_shot"] and not name.startswith("zero-shot"):
        words += f", ROC-AUC compared with zero-shot {_signed(told['over_zero_shot'][name]['valid']['roc_auc'])}"
    return words


def _loss(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _verifier_name(name: str) -> str:
    first, _, rest = name.partition(" ")
    if first == "zero-shot":
        return f"{rest.upper()} zero-shot"
    if name == "contract":
        return "contract alone"
    return f"{first.upper() if first in ('era', 'ira') else first} {rest + ' labels' if rest else ''}".strip()


def _table(title: str, measure: str, lines: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    yield f"| {title} | " + " | ".join(TARGETS) + " |"
    yield "| --- |" + " --- |" * len(TARGETS)
    for name, by_target in lines:
        cells = [_cell(by_target[target][measure]) if target in by_target else "-" for target in TARGETS]
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""


def _cell(one: Mapping[str, float]) -> str:
    return f"{one['mean']:.2f} ({one['low']:.2f} to {one['high']:.2f})"


def _signed(one: Mapping[str, float]) -> str:
    return f"{one['mean']:+.3f} ({one['low']:+.3f} to {one['high']:+.3f})"


def _base_rates(majority: Mapping[str, Any]) -> str:
    return ", ".join(f"{target} {majority[target]['base_rate']:.0%}" for target in TARGETS)


def _faults(counts: Mapping[str, int]) -> str:
    told = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in counts.items() if name != "none")
    return f"Its faults: {told}."


def _curves_plot(curve: Mapping[str, Any]) -> str:
    panels = []
    for measure in ("balanced_accuracy", "roc_auc"):
        for name in ROW_SETS:
            points = curve[name]["labels"]
            sizes = list(map(str, LABELS[name]))  # all labels stand too near to the last of them
            lines = [[_bar(points[labels]["targets"][target][measure]) for labels in sizes] for target in TARGETS]
            panels.append(Curves(f"{_MEASURES[measure]}, {_SETS[name]}", LABELS[name], lines, 0.4, 1.0))
    return curves_svg(panels, TARGETS)


def _queue_plot(by_set: Mapping[str, Mapping[str, Any]]) -> str:
    panels = []
    for name, told in by_set.items():
        rounds = told["rounds"]
        for measure in ("balanced_accuracy", "roc_auc"):
            lines = [[_bar(one["arms"][arm]["valid"][measure]) for one in rounds] for arm in ARMS]
            bounds = [bound for line in lines for bar in line for bound in (bar.low, bar.high) if bound is not None]
            title, sizes = f"{_MEASURES[measure]}, {_SETS[name]}", [one["labels"] for one in rounds]
            panels.append(Curves(title, sizes, lines, round(min(bounds) - 0.02, 2), round(max(bounds) + 0.02, 2)))
    return curves_svg(panels, [_ARMS[arm] for arm in ARMS])


def _bar(one: Mapping[str, float]) -> Bar:
    return Bar(one["mean"], one["low"], one["high"])
