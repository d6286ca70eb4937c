"""The two start forms: what a lead chooses for a run of the verifier or of the generator, in the field's terms.

A form that was drawn once starts one run: a second click on it leads to the run that the first has started.
"""

from collections.abc import Callable, Mapping
from typing import Final

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from data.records import VARIANT_TYPE_KEYS, Run
from engine.variant_types.table import VARIANT_TYPES
from ui.desk.context import Actor, Desk
from ui.desk.named_values import named_values
from ui.desk.usecases import learning
from ui.desk.usecases.learning import (
    LANGUAGE_TRAININGS,
    VERIFIER_KINDS,
    VLLM_MODES,
    LanguageTraining,
    VerifierKind,
    VllmMode,
)
from ui.views.run_started import run_started
from ui.widgets.once import act_once
from ui.widgets.page import notice

_KINDS: Final[Mapping[VerifierKind, str]] = {
    "feature": "Feature verifier: trains in seconds to minutes on this machine and needs few labels",
    "language": "Language model: fine-tunes a causal model; needs a GPU or a long run, and thousands of labels",
}
_METHODS: Final[Mapping[LanguageTraining, str]] = {
    "era": "ERA: judges each dimension on its own",
    "ira": "IRA: judges validity in one pass",
}
_VLLM: Final[Mapping[VllmMode, str]] = {
    "off": "off: the trainer generates the candidates (the only choice on a CPU)",
    "colocate": "colocate: vLLM on the trainer's GPU",
    "server": "server: a vLLM server that is already running",
}
_NO_VALIDATION: Final = (
    "Without validation labels, a language model would not know when to stop: label variants of more questions."
)
_ELSEWHERE: Final = (
    "The run is prepared here. Export it to a worker machine with a GPU and collect the result from there "
    "(sagedesk run export, sagedesk run collect)."
)


def verifier_form(desk: Desk, actor: Callable[[], Actor], *, labels: int, validation_labels: int, why_not: str) -> None:
    """`actor` is asked again when the form is sent. `labels` are all that could be used."""
    kind: VerifierKind = st.radio("What to train", VERIFIER_KINDS, format_func=_KINDS.__getitem__, key="verifier_kind")
    if kind == "language" and not validation_labels:
        why_not = why_not or _NO_VALIDATION
    with st.form(f"verifier_{kind}", border=True):
        method: LanguageTraining = "era"
        base_model, overrides, compares = "", "", False
        rank: int | None = None
        if kind == "language":
            left, right = st.columns(2, gap="large")
            base_model = left.text_input(
                "Base model",
                placeholder=desk.settings.model or "the embedded model",
                help="A hub id or a folder on the desk's machine.",
            )
            method = right.radio("Method", LANGUAGE_TRAININGS, format_func=_METHODS.__getitem__)
            rank = _lora_rank(left)
            compares = left.checkbox(
                "Train with both methods and compare", help="On the same rows; takes twice as long."
            )
            overrides = _overrides(right, "SFT")
        left, middle, right = st.columns(3, gap="large")
        precision = left.slider(
            "Required precision of accepted variants (%)",
            70,
            99,
            95,
            help="Sets the thresholds: on calibration labels, the lower 95 % bound of the precision must reach this.",
        )
        most = middle.number_input(
            "Maximum labels",
            min_value=1,
            value=None,
            placeholder=f"all {labels:,}",
            help="The newest are used; at least 30 % of the first labels are always included.",
        )
        seed = right.number_input(
            "Seed", 0, 2**32 - 1, 0, help="The same labels, settings and seed give the same verifier."
        )
        elsewhere = st.checkbox("Run on a worker machine", help=_ELSEWHERE, key=f"verifier_{kind}_elsewhere")
        _send(
            f"verifier_{kind}_send",
            "Train the verifier",
            why_not,
            lambda: learning.retrain_verifier(
                desk,
                actor(),
                kind=kind,
                method=method,
                base_model=base_model.strip() or None,
                lora_rank=rank,
                max_labels=None if most is None else int(most),
                target_precision=precision / 100,
                compare_methods=compares,
                sft=_trl_settings(overrides),
                seed=int(seed),
                elsewhere=elsewhere,
            ),
        )


def generator_form(desk: Desk, actor: Callable[[], Actor], *, why_not: str) -> None:
    """`actor` is asked again when the form is sent."""
    with st.form("generator", border=True):
        types = st.pills(
            "Variant types",
            VARIANT_TYPE_KEYS,
            selection_mode="multi",
            default=VARIANT_TYPE_KEYS,
            format_func=lambda key: VARIANT_TYPES[key].name,
        )
        left, middle, right = st.columns(3, gap="large")
        with left:
            st.html("<b>Starting point</b>")
            base_model = st.text_input(
                "Base model",
                placeholder="the current generator",
                help="A hub id or a folder on the desk's machine.",
            )
            seed = st.number_input("Seed", 0, 2**31 - 1, 0)
        with middle:
            st.html("<b>1. Fine-tuning on accepted variants (SFT)</b>")
            epochs = st.number_input("Epochs", 0.1, 20.0, 1.0, 0.5)
            rank = _lora_rank(st.container())
            skip_sft = st.checkbox("Skip this stage", help="For a base model that has already been fine-tuned.")
        with right:
            st.html("<b>2. Reinforcement (GRPO)</b>")
            steps = st.number_input("Steps", 0, 100_000, 100, help="0 skips this stage.")
            group = st.number_input("Candidates per prompt", 2, 64, 8, help="Each is rewarded relative to the others.")
            questions = st.number_input(
                "Comparison questions",
                1,
                10_000,
                20,
                help="Held-out questions. Variants written before and after training are judged and compared.",
            )
        with st.expander("Advanced: vLLM and TRL settings"):
            first, second = st.columns(2, gap="large")
            vllm: VllmMode = first.radio("vLLM", VLLM_MODES, format_func=_VLLM.__getitem__)
            url = first.text_input("vLLM server address", placeholder="http://127.0.0.1:8000")
            sft_overrides = _overrides(second, "SFT")
            grpo_overrides = _overrides(second, "GRPO")
        elsewhere = st.checkbox("Run on a worker machine", help=_ELSEWHERE, key="generator_elsewhere")
        _send(
            "generator_send",
            "Train the generator",
            why_not,
            lambda: learning.refresh_generator(
                desk,
                actor(),
                base_model=base_model.strip() or None,
                types=[key for key in VARIANT_TYPE_KEYS if key in types],
                sft_epochs=float(epochs),
                lora_rank=rank,
                sft=_trl_settings(sft_overrides),
                grpo_steps=int(steps),
                group_size=int(group),
                grpo=_trl_settings(grpo_overrides),
                vllm=vllm,
                vllm_url=(url.strip() or None) if vllm == "server" else None,
                comparison_questions=int(questions),
                skip_sft=skip_sft,
                seed=int(seed),
                elsewhere=elsewhere,
            ),
        )


def _trl_settings(text: str) -> Mapping[str, object] | None:
    """One pair per line. Raises InputError when a line is none."""
    return named_values(filter(None, map(str.strip, text.splitlines())), where="TRL setting")


def _lora_rank(place: DeltaGenerator) -> int | None:
    """None for all weights."""
    rank = place.number_input(
        "LoRA rank", 0, 512, 16, help="Size of the adapter that is trained; 0 trains all weights."
    )
    return int(rank) or None


def _overrides(place: DeltaGenerator, trainer: str) -> str:
    return place.text_area(
        f"TRL {trainer} settings",
        placeholder="learning_rate = 1e-5",
        height=100,
        help=f"One `name = value` per line, as in TRL's {trainer}Config. They override the desk's settings.",
    )


def _send(key: str, label: str, why_not: str, act: Callable[[], Run]) -> None:
    """The form's button, and why it cannot be used."""
    left, right = st.columns([1, 3], vertical_alignment="center")
    if why_not:
        with right:
            notice(why_not)
    act_once(
        left.form_submit_button,
        label,
        lambda: run_started(act()),
        key=key,
        disabled=bool(why_not),
        type="primary",
        width="stretch",
    )
