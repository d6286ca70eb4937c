"""Where question clusters stand: once and for all, by quota, whatever the batches in which they come."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from data.records import PARTS, Part
from data.samples import sample_questions
from training.examples import group_of, learnt_groups
from training.gate_report import MIN_GATE_QUESTIONS
from training.splits import SHARES_PERCENT, assign

BENCHMARKS = ("arc", "mini", "sample")
CLUSTERS = st.lists(st.integers(0, 60).map(lambda number: f"c_{number}"), max_size=25)


def clusters(count: int, benchmark: str = "mini") -> dict[str, str]:
    return {f"c_{benchmark}_{number}": benchmark for number in range(count)}


def assigned(wanted: dict[str, str], seed: int = 1) -> dict[str, Part]:
    return assign(wanted, {}, learnt=(), seed=seed)


@given(batches=st.lists(CLUSTERS, max_size=8), seed=st.integers(0, 2**31 - 1))
def test_a_cluster_is_drawn_once_and_stays_in_whatever_batches_it_comes_again(
    batches: list[list[str]], seed: int
) -> None:
    standing: dict[str, tuple[str, Part]] = {}
    seen: set[str] = set()

    for batch in batches:
        wanted = {name: BENCHMARKS[int(name[2:]) % 3] for name in batch}
        new = assign(wanted, standing, learnt={"c_0", "c_3"}, seed=seed)
        assert new.keys() == wanted.keys() - seen
        standing |= {name: (wanted[name], part) for name, part in new.items()}
        seen |= wanted.keys()

    for benchmark in BENCHMARKS:
        parts = Counter(
            part for name, (where, part) in standing.items() if where == benchmark and name not in ("c_0", "c_3")
        )
        for part in PARTS:
            assert abs(parts[part] - SHARES_PERCENT[part] * parts.total() / 100) < 2.5
    assert all(standing[name][1] == "train" for name in ("c_0", "c_3") if name in standing)


def test_the_shares_hold_exactly_for_a_hundred_clusters_and_each_benchmark_has_its_own() -> None:
    parts = assigned(clusters(100, "mini") | clusters(20, "arc"))

    assert Counter(part for name, part in parts.items() if "mini" in name) == SHARES_PERCENT
    assert Counter(part for name, part in parts.items() if "arc" in name) == {
        "train": 10,
        "validation": 2,
        "calibration": 3,
        "gate": 5,
    }


def test_two_questions_already_reach_the_gate_and_a_dozen_every_part() -> None:
    assert sorted(assigned(clusters(2)).values()) == ["gate", "train"]
    assert set(assigned(clusters(12)).values()) == set(PARTS)


def test_eleven_questions_are_enough_for_the_gate_to_say_something() -> None:
    counts = [Counter(assigned(clusters(size)).values()) for size in range(1, 80)]

    assert all(after["gate"] - before["gate"] in (0, 1) for before, after in pairwise(counts))
    assert all(count["gate"] >= MIN_GATE_QUESTIONS for count in counts[10:])
    assert all(count["gate"] <= count["train"] for count in counts)
    assert all(abs(count["gate"] - 0.25 * count.total()) <= 1 for count in counts[19:])


def test_the_seed_decides_which_clusters_and_not_how_many() -> None:
    first, second = (assigned(clusters(40), seed) for seed in (1, 2))

    assert first != second
    assert Counter(first.values()) == Counter(second.values())
    assert first == assigned(dict(reversed(clusters(40).items())), 1)


def test_a_standing_cluster_keeps_its_part_when_its_benchmark_changes() -> None:
    assert assign({"c_1": "arc"}, {"c_1": ("mini", "gate")}, learnt=(), seed=1) == {}


def test_what_the_first_verifier_learnt_from_is_train_and_takes_no_place_of_others() -> None:
    sample = {group_of(question): "sample" for question in sample_questions()}

    parts = assign(sample, {}, learnt=learnt_groups(), seed=5)
    again = assign(
        {"c_new": "sample"}, {name: ("sample", part) for name, part in parts.items()}, learnt=learnt_groups(), seed=5
    )

    assert {parts[name] for name in learnt_groups()} == {"train"}
    assert Counter(parts[name] for name in sample.keys() - learnt_groups()) == {
        "train": 6,
        "validation": 1,
        "calibration": 2,
        "gate": 5,
    }
    assert set(again) == {"c_new"}
