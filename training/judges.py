"""The judge of a comparison: a verifier that was not the reward, for a policy learns what its reward overlooks.

Owns the choice between a given one and one that is trained for the purpose. Refuses one that shares weights with the
reward verifier, whatever their calibrations (ADR 9).
"""

from collections.abc import Callable
from pathlib import Path

from data.errors import InputError, JobError
from engine.verifiers import open_verifier, verifier_version
from engine.verify import Verifier
from training.labelled_rows import LabelledRows

Warn = Callable[[str], None]


def refuse_the_reward(judge: Path, reward: Path) -> None:
    """Raises JobError where both are one verifier, ModelError where a folder holds none."""
    if judge.resolve() == reward.resolve() or _weights(verifier_version(judge)) == _weights(verifier_version(reward)):
        raise JobError(
            f"refresh-generator: {judge} would judge what it has rewarded; name another judge, or none, "
            f"and one is trained on other labels"
        )


def given_or_trained(
    judge: Path | None, reward: Path, labels: LabelledRows, *, encoder: Path | None, seed: int, warn: Warn
) -> Verifier | None:
    """The judge, None where there is none and the labels cannot teach one: the contract then compares alone.

    The trained one is a feature verifier on the validation and calibration labels, without the sentence encoder: other
    questions and other features than the reward has learnt from. It is small, and of the same family as a feature
    verifier in the reward: a person who has an independent verifier should name it.

    Raises:
        JobError: it is the reward verifier.
        ModelError: a folder cannot be opened.
    """
    if judge is not None:
        refuse_the_reward(judge, reward)
        return open_verifier(judge, encoder=encoder)
    from training.feature_verifier import train

    try:
        trained = train(labels.pairs, labels.answers, labels.groups, seed=seed, encoder=None)
    except InputError as exc:
        warn(f"the comparison is by contract alone, for no judge could be trained on other labels: {exc}")
        return None
    return trained.verifier


def _weights(version: str) -> str:
    """A version without its calibration's part."""
    return version.partition("+")[0]
