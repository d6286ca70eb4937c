from training.stop_rules import StopRules, is_unscorable, reason_to_stop

RULES = StopRules(window=3)


def steps(name, values, start=1):
    return [{"step": step, name: value} for step, value in enumerate(values, start)]


def test_a_steady_training_is_not_stopped():
    history = [
        {
            "step": step,
            "kl": 0.1,
            "entropy": 1.0,
            "distinct_2": 0.6,
            "completion_tokens": 80,
            "zero_variance_share": 0.2,
        }
        for step in range(1, 30)
    ]

    assert reason_to_stop(history, RULES) is None


def test_the_kl_is_held_against_its_bound_as_an_average():
    assert reason_to_stop(steps("kl", [0.0, 0.0, 1.4]), RULES) is None
    assert "0.60 nats per token" in str(reason_to_stop(steps("kl", [0.0, 0.6, 0.6, 0.6]), RULES))


def test_groups_that_teach_nothing_stop_it():
    assert reason_to_stop(steps("zero_variance_share", [1.0, 1.0]), RULES) is None
    assert "100% of the groups in the last 3 steps" in str(
        reason_to_stop(steps("zero_variance_share", [0.0, 1.0, 1.0, 1.0]), RULES)
    )


def test_entropy_variety_and_length_are_held_against_the_beginning():
    assert "entropy fell from 1.000 to 0.200" in str(reason_to_stop(steps("entropy", [1, 1, 1, 0.2, 0.2, 0.2]), RULES))
    assert "from 0.60 to 0.20" in str(reason_to_stop(steps("distinct_2", [0.6, 0.6, 0.6, 0.2, 0.2, 0.2]), RULES))
    assert "grew from 50 to 100 tokens" in str(
        reason_to_stop(steps("completion_tokens", [50, 50, 50, 100, 100, 100]), RULES)
    )
    assert reason_to_stop(steps("entropy", [0.2, 0.2, 0.2, 0.2, 0.2, 0.2]), RULES) is None


def test_a_fall_is_not_seen_before_two_windows_are_full():
    assert reason_to_stop(steps("entropy", [1, 1, 1, 0.0, 0.0]), RULES) is None


def test_a_reward_that_rises_while_the_probe_falls_stops_it():
    hacked = [
        {"step": 0, "probe": 0.5},
        *steps("reward", [0.2, 0.2, 0.2]),
        {"step": 3, "probe": 0.6},
        *steps("reward", [0.5, 0.5, 0.5], start=4),
        {"step": 6, "probe": 0.3},
    ]

    reason = reason_to_stop(hacked, RULES)

    assert reason is not None
    assert "the reward rose from 0.20 to 0.50" in reason
    assert "fell from 0.60 to 0.30" in reason


def test_a_probe_that_falls_from_its_very_start_is_seen_too():
    hacked = [{"step": 0, "probe": 0.5}, *steps("reward", [0.2, 0.2, 0.2, 0.6, 0.6, 0.6]), {"step": 6, "probe": 0.3}]

    assert "fell from 0.50 to 0.30" in str(reason_to_stop(hacked, RULES))


def test_either_alone_does_not_stop_it():
    learns = [{"step": 0, "probe": 0.5}, *steps("reward", [0.2] * 3 + [0.6] * 3), {"step": 6, "probe": 0.49}]
    drifts = [{"step": 0, "probe": 0.5}, *steps("reward", [0.2] * 6), {"step": 6, "probe": 0.1}]

    assert reason_to_stop(learns, RULES) is None
    assert reason_to_stop(drifts, RULES) is None


def test_rules_that_are_off_stop_nothing():
    off = StopRules(
        window=3,
        most_kl=None,
        least_entropy_ratio=None,
        most_length_ratio=None,
        least_distinct_ratio=None,
        most_zero_variance_share=None,
        probe_tolerance=None,
    )
    history = [
        {
            "step": s,
            "kl": 9.0,
            "zero_variance_share": 1.0,
            "entropy": 1 / s,
            "distinct_2": 1 / s,
            "completion_tokens": s,
        }
        for s in range(1, 20)
    ]

    assert reason_to_stop(history, off) is None


def test_figures_that_are_no_numbers_are_left_out():
    assert reason_to_stop(steps("kl", [None, float("nan"), 0.9, 0.9, 0.9]), RULES) is not None
    assert reason_to_stop(steps("kl", [None, float("nan"), 0.9, 0.9]), RULES) is None


def test_only_steps_on_end_without_a_score_count_as_unscorable():
    rules = StopRules(unscorable_steps=3)

    assert not is_unscorable(steps("judged_share", [0.0, 0.0]), rules)
    assert not is_unscorable(steps("judged_share", [0.0, 0.0, 0.1]), rules)
    assert is_unscorable(steps("judged_share", [0.5, 0.0, 0.0, 0.0]), rules)


def test_steps_in_which_nothing_was_the_verifiers_to_judge_count_for_neither_side():
    asked_thrice = [*steps("judged_share", [0.0, 0.0]), *steps("reward", [0.0] * 9), {"step": 12, "judged_share": 0.0}]

    assert is_unscorable(asked_thrice, StopRules(unscorable_steps=3))
    assert not is_unscorable(steps("reward", [0.0] * 9), StopRules(unscorable_steps=3))
