from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="needs sagedesk[ml]")

from data.errors import ModelError
from data.records import VARIANT_TYPE_KEYS
from engine.backends.protocol import Sampling
from engine.backends.transformers import TransformersBackend, load_causal_model
from engine.candidate import CandidateReply, candidate_from_reply
from engine.embedded import EMBEDDED_GENERATOR, embedded_folder
from engine.prompts import GenerationRequest

SHORT = Sampling(max_new_tokens=12)


@pytest.fixture(scope="module")
def loaded(tiny_model_folder):
    return load_causal_model(tiny_model_folder)


def backend(loaded, **further):
    return TransformersBackend(*loaded, model_name="tiny", **further)


@pytest.fixture(scope="module")
def requests(sample_questions):
    return [
        GenerationRequest(f"g{number}", question, VARIANT_TYPE_KEYS[number % 7], 100 + number)
        for number, question in enumerate(sample_questions[:9])
    ]


def texts(replies):
    return [reply.text for reply in replies]


@pytest.mark.parametrize("is_constrained", [True, False])
def test_batches_and_order_do_not_change_what_is_said(loaded, requests, is_constrained):
    one_by_one = list(backend(loaded, batch_size=1, is_constrained=is_constrained).generate(requests, SHORT))
    together = list(backend(loaded, batch_size=4, is_constrained=is_constrained).generate(requests[::-1], SHORT))

    assert texts(together[::-1]) == texts(one_by_one)
    assert len(set(texts(one_by_one))) == len(requests)


def test_a_shared_beginning_is_read_once_and_changes_nothing(loaded, requests):
    sharing = backend(loaded, batch_size=4)
    apart = backend(loaded, batch_size=4, shares_prefixes=False)

    assert texts(sharing.generate(requests, SHORT)) == texts(apart.generate(requests, SHORT))
    if sharing._prefixes is None:
        pytest.skip("this transformers names caches otherwise; prompts are read whole")
    prompt = sharing._prompt(requests[0])
    assert len(prompt.prefix) > 2 * len(prompt.rest)
    assert prompt.prefix + prompt.rest == apart._prompt(requests[0]).rest
    assert len(sharing._prefix_tokens) == len({request.variant_type for request in requests})


def test_a_second_request_of_a_type_reads_only_its_own_question(loaded, requests):
    read = []
    counted = (
        loaded[0].get_input_embeddings().register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].numel()))
    )
    sharing = backend(loaded)
    again = replace(requests[0], question=requests[1].question)

    list(sharing.generate(requests[:1], Sampling(max_new_tokens=1)))
    first = sum(read)
    read.clear()
    list(sharing.generate([again], Sampling(max_new_tokens=1)))
    counted.remove()

    assert first == sharing._prompt(requests[0]).length
    assert sum(read) == len(sharing._prompt(again).rest)


def test_another_seed_says_something_else(loaded, requests):
    [first] = backend(loaded).generate(requests[:1], SHORT)
    [other] = backend(loaded).generate([replace(requests[0], seed=1)], SHORT)

    assert first.text != other.text


def test_replies_stand_in_the_order_of_requests_although_batches_go_by_length(loaded, requests):
    shuffled = sorted(requests, key=lambda request: request.seed % 5)

    replies = backend(loaded, batch_size=2).generate(shuffled, SHORT)

    assert [reply.request_id for reply in replies] == [request.request_id for request in shuffled]


def test_a_reply_without_an_end_is_truncated_and_keeps_its_text(loaded, requests):
    [reply] = backend(loaded).generate(requests[:1], Sampling(max_new_tokens=3))

    assert (reply.failure, reply.generated_tokens) == ("truncated", 3)
    assert reply.text
    assert "3 tokens" in reply.detail


def test_a_constrained_reply_that_ends_parses_and_has_the_options_of_its_type(loaded, requests):
    room = Sampling(max_new_tokens=600, temperature=1.0)

    replies = list(backend(loaded).generate(requests[:7], room))

    whole = [reply for reply in replies if not reply.failure]
    assert whole, "no reply came to its end"
    for reply in whole:
        kind = next(r.variant_type for r in requests if r.request_id == reply.request_id)
        candidate = CandidateReply.model_validate_json(reply.text)
        assert len(candidate.options) == (5 if kind == "critical" else 4)


def test_a_prompt_that_does_not_fit_is_an_error_of_its_own_request(loaded, requests):
    endless = replace(requests[0], question=replace(requests[0].question, context="word " * 9000))

    replies = list(backend(loaded).generate([endless, requests[1]], SHORT))

    assert [reply.failure for reply in replies] == ["error", "truncated"]
    assert "too many for this model" in replies[0].detail


def test_opening_names_folder_and_fingerprint(tiny_model_folder):
    opened = TransformersBackend.open({"model": str(tiny_model_folder)})

    assert opened.model.startswith(tiny_model_folder.name + "@")
    assert opened.supported_types() == set(VARIANT_TYPE_KEYS)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_damaged_model_is_one_line(tiny_model_folder, tmp_path, name):
    import shutil

    folder = shutil.copytree(tiny_model_folder, tmp_path / "model")
    (folder / name).write_bytes(b'{"cut": ')

    with pytest.raises(ModelError, match="model folder") as refusal:
        TransformersBackend.open({"model": str(folder)})

    assert "\n" not in str(refusal.value)


@pytest.mark.model
def test_the_embedded_model_writes_replies_that_parse(sample_questions):
    if embedded_folder(EMBEDDED_GENERATOR) is None:
        pytest.skip("the embedded model is not fetched: python -m engine.embedded")
    asked = [GenerationRequest(f"g{n}", sample_questions[n], key, n) for n, key in enumerate(VARIANT_TYPE_KEYS[:4])]

    replies = list(TransformersBackend.open({}).generate(asked, Sampling(max_new_tokens=160)))

    assert [reply.failure for reply in replies] == [""] * 4
    assert all(candidate_from_reply(reply.text).context for reply in replies)
