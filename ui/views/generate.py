"""Generating variants: by which backend, which types, of which questions; what it would come to; start."""

import streamlit as st

from data.errors import SagedeskError
from data.records import VARIANT_TYPE_KEYS, VariantTypeKey
from engine.variant_types.table import VARIANT_TYPES
from ui.desk.context import Actor, Desk
from ui.desk.usecases import generation
from ui.desk.usecases.generation import BACKENDS, BackendName
from ui.desk.usecases.models import list_models
from ui.desk.usecases.questions import search_questions
from ui.views.run_started import run_started
from ui.widgets.once import act_once
from ui.widgets.page import empty, figures, head, notice, refusals_shown, table
from ui.widgets.presence import still

_WHAT: dict[BackendName, str] = {
    "rules": "rules: instant, no model; only the types that a program can make reliably",
    "transformers": "transformers: a language model on this machine; all seven types",
    "openai": "openai: any OpenAI-compatible endpoint; all seven types",
    "vllm": "vllm: a language model on a GPU, in the worker environment (SAGEDESK_WORKER_PYTHON); all seven types",
}


def render(desk: Desk, actor: Actor) -> None:
    head("Generate", "Candidates that pass their type's contract are verified and queued for review.")
    with refusals_shown():
        sources = search_questions(desk, actor, limit=1)
        if sources.total == 0:
            empty("No questions to generate from", "Open Questions and import a benchmark first.")
            return
        backend = _backend(desk)
        types = _types(backend)
        if not types:
            notice("Choose at least one type.")
            return
        left, middle, right, last = st.columns(4)
        benchmark = left.selectbox(
            "Benchmark",
            [None, *(one.name for one in sources.benchmarks)],
            format_func=lambda it: it or "all benchmarks",
        )
        limit = middle.number_input("Maximum questions", 1, 1_000_000, min(20, sources.total))
        per_question = right.number_input("Candidates per question and type", 1, generation.MAX_PER_QUESTION, 1)
        seed = last.number_input(
            "Seed", 0, 2**31 - 1, 0, help="The same seed, model and machine give the same variants."
        )
        temperature, max_new_tokens, model, prices = _model_settings(desk, backend)
        _estimate(
            desk,
            actor,
            backend=backend,
            types=types,
            benchmark=benchmark,
            limit=int(limit),
            per_question=int(per_question),
            max_new_tokens=max_new_tokens,
            prices=prices,
        )
        if not any(model.role == "verifier" and model.is_champion for model in list_models(desk, actor)):
            notice(
                "There is no verifier yet. The variants will be made, but they are verified and queued for review only "
                "once there is one; you can train it on the Overview page.",
                kind="warn",
            )
        act_once(
            st.button,
            "Start generating",
            lambda: run_started(
                generation.start_generation(
                    desk,
                    still(actor),
                    backend=backend,
                    types=types,
                    benchmark=benchmark,
                    limit=int(limit),
                    per_question=int(per_question),
                    temperature=temperature,
                    max_new_tokens=max_new_tokens,
                    seed=int(seed),
                    model=model,
                )
            ),
            key="generate_start",
            type="primary",
        )


def _backend(desk: Desk) -> BackendName:
    chosen: BackendName = st.radio("Backend", BACKENDS, format_func=lambda name: _WHAT[name], key="generate_backend")
    if chosen == "openai" and not desk.settings.openai_base_url:
        notice("Set SAGEDESK_OPENAI_BASE_URL to the endpoint's address and restart the desk.", kind="warn")
    if chosen == "transformers":
        notice(
            "On a CPU, a small model writes a few variants per minute, and before it is trained few of them pass their "
            "contract. Start with a handful of questions."
        )
    return chosen


def _types(backend: BackendName) -> list[VariantTypeKey]:
    offered = [key for key in VARIANT_TYPE_KEYS if backend != "rules" or VARIANT_TYPES[key].write is not None]
    chosen: list[VariantTypeKey] = st.pills(
        "Variant types",
        offered,
        selection_mode="multi",
        default=offered,
        format_func=lambda key: VARIANT_TYPES[key].name,
        key=f"generate_types_{backend}",
    )
    with st.expander(
        "What each type does" + ("" if len(offered) == len(VARIANT_TYPE_KEYS) else ", and why some are unavailable")
    ):
        table(
            ["type", "definition", "with this backend"],
            [
                [
                    VARIANT_TYPES[key].name,
                    VARIANT_TYPES[key].definition,
                    "available" if key in offered else f"not available: {VARIANT_TYPES[key].write_refusal}",
                ]
                for key in VARIANT_TYPE_KEYS
            ],
        )
    return [key for key in offered if key in chosen]


def _model_settings(desk: Desk, backend: BackendName) -> tuple[float, int, str | None, tuple[float, float] | None]:
    """Temperature, new tokens, model, and prices per million tokens (prompt, generated) where they were given."""
    if backend == "rules":
        return 0.8, 256, None, None
    left, middle, right = st.columns([2, 1, 1])
    model = left.text_input(
        "Model",
        value="" if desk.settings.model is None else desk.settings.model,
        placeholder="the embedded model" if backend == "transformers" else "the model's name at the endpoint",
    )
    temperature = middle.slider("Temperature", 0.0, 2.0, 0.8, 0.1)
    max_new_tokens = right.number_input("Max new tokens", 16, 8192, 256)
    prices = None
    if backend == "openai":
        prompt, generated = st.columns(2)
        prompt_price = prompt.number_input("Price per million prompt tokens", min_value=0.0, value=None)
        generated_price = generated.number_input("Price per million generated tokens", min_value=0.0, value=None)
        if prompt_price is not None and generated_price is not None:
            prices = (prompt_price, generated_price)
    return temperature, int(max_new_tokens), model.strip() or None, prices


def _estimate(
    desk: Desk,
    actor: Actor,
    *,
    backend: BackendName,
    types: list[VariantTypeKey],
    benchmark: str | None,
    limit: int,
    per_question: int,
    max_new_tokens: int,
    prices: tuple[float, float] | None,
) -> None:
    try:
        expected = generation.estimate(
            desk,
            actor,
            backend=backend,
            types=types,
            benchmark=benchmark,
            limit=limit,
            per_question=per_question,
            max_new_tokens=max_new_tokens,
            prompt_price_per_million=None if prices is None else prices[0],
            generated_price_per_million=None if prices is None else prices[1],
        )
    except SagedeskError as exc:
        notice(str(exc), kind="error")
        return
    shown = [("questions", f"{expected.questions:,}"), ("candidates requested", f"{expected.requests:,}")]
    if expected.generated_tokens:
        shown += [
            ("prompt tokens (approx.)", f"{expected.prompt_tokens:,}"),
            ("generated tokens (max)", f"{expected.generated_tokens:,}"),
        ]
    if expected.cost is not None:
        shown.append(("cost (max)", f"{expected.cost:,.2f}"))
    figures(shown)
