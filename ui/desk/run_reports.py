"""The reports among a run's and a model's counts, typed. Owns where each stands; its own module says what it holds.

Refuses none of the run itself: counts that hold no such report give None, one that cannot be read raises ReportError.
"""

from collections.abc import Mapping

from data.records import Run, VariantTypeKey, VerdictTarget
from engine.generate import GenerationYield
from engine.jobs.generate import yields_from
from engine.jobs.verify import VerdictCounts, verdict_counts_from
from training.comparison_report import GeneratorComparison, comparison_from
from training.gate_report import GateReport, gate_report_from
from training.registry import MANIFEST, RegisteredModel
from training.verifier_report import VerifierTraining, verifier_training_from


def gate_of_run(run: Run) -> GateReport | None:
    """What a gate run found; None for others, and before its end. Raises ReportError."""
    if run.kind != "gate-verifier" or "gate" not in run.result:
        return None
    return gate_report_from(run.result["gate"], source=_of_run("gate report", run))


def verifier_training_of_run(run: Run) -> VerifierTraining | None:
    """What the training of a verifier measured; None for others, and before its end. Raises ReportError."""
    if run.kind != "train-verifier" or "targets" not in run.result:
        return None
    return verifier_training_from(run.result, source=_of_run("training report", run))


def verdicts_of_run(run: Run) -> Mapping[VerdictTarget, VerdictCounts] | None:
    """What a verification said, by target; None for others, and before its end. Raises ReportError."""
    if run.kind != "verify" or "targets" not in run.result:
        return None
    return verdict_counts_from(run.result["targets"], source=_of_run("verdict counts", run))


def yields_of_run(run: Run) -> Mapping[VariantTypeKey, GenerationYield] | None:
    """What became of a generation's requests, by type; None for others, and before its end. Raises ReportError."""
    if run.kind != "generate" or "types" not in run.result:
        return None
    return yields_from(run.result["types"], source=_of_run("yields", run))


def verifier_training_of_model(model: RegisteredModel) -> VerifierTraining | None:
    """What its training measured; None for a generator, and where that was not written down. Raises ReportError."""
    counts = model.origin.get("counts")
    if model.role != "verifier" or not isinstance(counts, Mapping) or "targets" not in counts:
        return None
    return verifier_training_from(counts, source=_of_model("training report", model))


def comparison_of_model(model: RegisteredModel) -> GeneratorComparison | None:
    """A generator before and after its training; None where that was not measured. Raises ReportError."""
    counts = model.origin.get("counts")
    if not isinstance(counts, Mapping) or "comparison" not in counts:
        return None
    return comparison_from(counts["comparison"], source=_of_model("comparison", model))


def _of_run(what: str, run: Run) -> str:
    return f"the {what} of run {run.run_id} ({run.folder}/result.json)"


def _of_model(what: str, model: RegisteredModel) -> str:
    return f"the {what} of {model.role} {model.model_id} ({model.folder / MANIFEST})"
