import pytest

from data.errors import JobError
from engine.calibration import Calibration
from engine.verifiers import verifier_version
from tests.engine.sample_pairs import sample_rows
from training.feature_verifier import train
from training.judges import given_or_trained, refuse_the_reward
from training.labelled_rows import LabelledRows

pytestmark = pytest.mark.slow

ROWS = sample_rows()


def saved(folder, *, seed, first=0):
    """A feature verifier on the sample's rows from `first` on."""
    train(ROWS.pairs[first:], ROWS.answers[first:], ROWS.groups[first:], seed=seed, encoder=None).verifier.save(folder)
    return folder


@pytest.fixture(scope="module")
def reward(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("verifiers") / "reward", seed=0)


def judge(given, reward, labels=None, warnings=None):
    labels = labels if labels is not None else LabelledRows(ROWS.pairs[60:], ROWS.answers[60:], ROWS.groups[60:])
    warn = (warnings if warnings is not None else []).append
    return given_or_trained(given, reward, labels, encoder=None, seed=0, warn=warn)


def test_the_reward_verifier_does_not_judge_its_own_work(reward):
    with pytest.raises(JobError, match="is also the reward"):
        judge(reward, reward)


def test_nor_does_its_copy_in_another_folder_or_under_another_calibration(reward, tmp_path):
    copy = saved(tmp_path / "copy", seed=0)
    Calibration(thresholds={"valid": 0.9}).save(copy)

    with pytest.raises(JobError, match="is also the reward"):
        refuse_the_reward(copy, reward)


def test_another_verifier_judges(reward, tmp_path):
    other = saved(tmp_path / "other", seed=0, first=60)

    assert judge(other, reward).version == verifier_version(other)


def test_without_one_a_judge_is_trained_on_the_given_labels(reward):
    trained = judge(None, reward)

    assert trained.version.startswith("feature:")
    again = train(ROWS.pairs[60:], ROWS.answers[60:], ROWS.groups[60:], seed=0, encoder=None).verifier
    assert trained.version == again.version


def test_with_too_few_labels_there_is_none_and_that_is_said(reward):
    warnings: list[str] = []

    assert judge(None, reward, LabelledRows(ROWS.pairs[:1], ROWS.answers[:1], ROWS.groups[:1]), warnings) is None
    assert len(warnings) == 1
    assert "uses the contract only" in warnings[0]


def test_no_label_at_all_is_too_few(reward):
    warnings: list[str] = []

    assert judge(None, reward, LabelledRows([], [], []), warnings) is None
    assert warnings
