"""The judge of a comparison: a verifier other than the reward, because a policy learns what its reward overlooks.

Owns the choice between a given judge and one trained for the purpose. Refuses one that shares weights with the reward
verifier, whatever their calibrations (ADR 9).
"""

from collections.abc import Callable
from pathlib import Path

from data.errors import InputError, JobError
from engine.verifiers import open_verifier, verifier_version
from engine.verify import Verifier
from training.labelled_rows import LabelledRows

Warn = Callable[[str], None]


def refuse_the_reward(judge: Path, reward: Path) -> None:
    """Raises JobError if both are the same verifier, ModelError if a folder has none."""
    if judge.resolve() == reward.resolve() or _weights(verifier_version(judge)) == _weights(verifier_version(reward)):
        raise JobError(
            f"refresh-generator: the judge {judge} is also the reward; name another judge, "
            f"or none to train one on other labels"
        )


def given_or_trained(
    judge: Path | None, reward: Path, labels: LabelledRows, *, encoder: Path | None, seed: int, warn: Warn
) -> Verifier | None:
    """The given judge or a newly trained one; None if the labels are too few, leaving only the contract to compare by.

    The trained one is a feature verifier on the validation and calibration labels, without the sentence encoder: other
    questions and other features than the reward was trained on. It is small, and of the same family as a feature
    verifier used as reward: if you have an independent verifier, name it.

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
        warn(f"the comparison uses the contract only, because no judge could be trained on other labels: {exc}")
        return None
    return trained.verifier


def _weights(version: str) -> str:
    """A version without the calibration's hash."""
    return version.partition("+")[0]
