"""The sample's labels as training rows, and an encoder without a model: for tests of the feature verifier."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from data.ids import cluster_id
from data.records import Answers, Question, Variant
from data.samples import sample_questions, sample_variants
from engine.embeddings import Encoder
from engine.wording import words


class SampleRows(NamedTuple):
    pairs: list[tuple[Question, Variant]]
    answers: list[Answers]
    groups: list[str]


def sample_rows() -> SampleRows:
    questions = {question.question_id: question for question in sample_questions()}
    items = sample_variants()
    pairs = [(questions[item.variant.question_id], item.variant) for item in items]
    groups = [cluster_id(question.context, question.options) for question, _ in pairs]
    return SampleRows(pairs, [item.answers for item in items], groups)


class BagOfWords(Encoder):
    """Encodes a text as the sum of one fixed random direction a word: near texts share words. Has no model."""

    def __init__(self) -> None:
        self.fingerprint = "bag-of-words"
        self.width = 64

    def learn(self, texts: Iterable[str]) -> None:
        """Needs none."""

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> NDArray[np.float32]:
        directions = [
            np.random.default_rng(int(hashlib.sha256(word.encode()).hexdigest()[:8], 16)).normal(size=self.width)
            for word in words(text) or ("",)
        ]
        total = np.sum(directions, axis=0)
        return np.asarray(total / np.linalg.norm(total), dtype=np.float32)
