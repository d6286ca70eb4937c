"""A training run's labels with their items, by part. Refuses gate labels and question groups that are in two parts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from data.arrow import questions_from, variants_from
from data.errors import InputError, JobError
from data.records import PARTS, Answers, Part
from engine.jobs.folder import RunFolder
from engine.verify import Pair
from training.examples import LABEL_SCHEMA


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """Items, people's answers on them, and their question groups, in the same order."""

    pairs: Sequence[Pair]
    answers: Sequence[Answers]
    groups: Sequence[str]

    def __len__(self) -> int:
        return len(self.pairs)

    def chosen(self, rows: Sequence[int]) -> "LabelledRows":
        return LabelledRows(
            [self.pairs[row] for row in rows], [self.answers[row] for row in rows], [self.groups[row] for row in rows]
        )


def labelled_parts(folder: RunFolder) -> Mapping[Part, LabelledRows]:
    """The run's labels by part, in their order; a part without labels is empty.

    Raises:
        InputError: there are no labels to learn from.
        JobError: a label has no item, belongs to the gate part, or its group is also in another part.
    """
    labels = folder.read_input("labels").select(LABEL_SCHEMA.names).to_pylist()
    pairs = dict(_items(folder))
    chosen: dict[Part, list[tuple[Pair, Answers, str]]] = {part: [] for part in PARTS}
    part_of: dict[str, Part] = {}
    for row in labels:
        pair, part, group = pairs.get(row["variant_id"]), row["part"], row["group"]
        if pair is None:
            raise JobError(
                f"train-verifier: variant {row['variant_id']} or its question is missing from the run's inputs; "
                f"start the run again from the desk"
            )
        if part not in PARTS or part == "gate":
            raise JobError(
                f"train-verifier: the label of {row['variant_id']} is in part {part!r}, which is never trained on; "
                f"start the run again from the desk"
            )
        if part_of.setdefault(group, part) != part:
            raise JobError(
                f"train-verifier: question group {group} is in both {part_of[group]} and {part}; "
                f"start the run again from the desk"
            )
        chosen[part].append((pair, Answers(row["tc"], row["lc"], row["au"]), group))
    if not chosen["train"]:
        raise InputError(
            "training a verifier: there are no labels to learn from; label variants, then start the training again"
        )
    return {
        part: LabelledRows([it[0] for it in rows], [it[1] for it in rows], [it[2] for it in rows])
        for part, rows in chosen.items()
    }


def _items(folder: RunFolder) -> Iterator[tuple[str, Pair]]:
    questions = {question.question_id: question for question in questions_from(folder.read_input("questions"))}
    for variant in variants_from(folder.read_input("variants")):
        question = questions.get(variant.question_id)
        if question is not None:
            yield str(variant.variant_id), (question, variant)
