"""The job that trains a verifier on labelled variants and says how good it is on questions that it had not seen.

inputs/questions.parquet, variants.parquet
inputs/labels.parquet               LABEL_SCHEMA; variants without a row there are not learnt from
outputs/model/                      what `engine.baseline.FeatureVerifier.load` reads
outputs/report.json                 out-of-fold figures, overall and by type; also the run's counts
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from data.arrow import questions_from, variants_from
from data.errors import JobError
from data.records import Answers
from engine.jobs.folder import RunFolder, write_json
from engine.jobs.report import Reporter
from engine.jobs.settings import parsed_settings
from engine.verify import Pair
from training.examples import LABEL_SCHEMA


class TrainVerifierSettings(BaseModel):
    """`encoder` is the folder of the sentence encoder; without one the verifier is trained on fewer features."""

    model_config = ConfigDict(extra="forbid")

    verifier: Literal["feature"] = "feature"
    encoder: str | None = None


def run(folder: RunFolder, report: Reporter) -> Mapping[str, object]:
    """Counts: `verifier_version`, `variants`, `groups`, `with_embeddings`, and the figures by `targets` and `types`.

    Raises:
        JobError: a setting does not fit, or a label has no variant or question.
        InputError: too few labels of one answer.
        ModelError: the encoder cannot be loaded.
        JobCancelledError: a person stopped it; nothing is kept.
    """
    from engine.baseline_training import report_as_json, train
    from engine.embeddings import Encoder

    spec = folder.spec()
    settings = parsed_settings("train-verifier", TrainVerifierSettings, spec.settings)
    labels = folder.read_input("labels").select(LABEL_SCHEMA.names).to_pylist()
    pairs = _pairs(folder, [row["variant_id"] for row in labels])
    if settings.encoder is None:
        report.message("no sentence encoder: training without embeddings", "warning")
    report.progress(0, None, "opening the sentence encoder")
    trained = train(
        pairs,
        [Answers(row["tc"], row["lc"], row["au"]) for row in labels],
        [row["group"] for row in labels],
        seed=spec.seed,
        encoder=None if settings.encoder is None else Encoder.open(Path(settings.encoder)),
        progress=report.progress,
    )
    report.check_cancelled()
    trained.verifier.save(folder.outputs / "model")
    counts = {"verifier_version": trained.verifier.version, **report_as_json(trained.report)}
    write_json(folder.outputs / "report.json", counts)
    return counts


def _pairs(folder: RunFolder, variant_ids: list[str]) -> list[Pair]:
    questions = {question.question_id: question for question in questions_from(folder.read_input("questions"))}
    variants = {str(variant.variant_id): variant for variant in variants_from(folder.read_input("variants"))}
    pairs = []
    for variant_id in variant_ids:
        variant = variants.get(variant_id)
        question = None if variant is None else questions.get(variant.question_id)
        if variant is None or question is None:
            raise JobError(
                f"train-verifier: the label of {variant_id} has no variant with its question among the run's inputs; "
                f"start the run again from the desk"
            )
        pairs.append((question, variant))
    return pairs
