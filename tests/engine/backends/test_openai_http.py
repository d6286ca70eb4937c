import json
import logging
import random
import socket
import threading
import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from pydantic import SecretStr

from data.errors import BackendError
from engine.backends.openai_http import OpenAIBackend, OpenAISettings, cost_estimate, retry_after_s
from engine.backends.protocol import Sampling
from engine.prompts import GenerationRequest

KEY = "sk-very-secret-0123456789"
SAMPLING = Sampling(temperature=0.7, top_p=0.9, max_new_tokens=100)


class Answer:
    def __init__(self, status, body, headers=None, wait_s=0.0):
        self.status, self.body, self.headers, self.wait_s = status, body, headers or {}, wait_s


def completion(text, *, finish="stop", wait_s=0.0, **message):
    choice = {"index": 0, "message": {"role": "assistant", "content": text, **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    return Answer(200, json.dumps({"choices": [choice], "usage": usage}).encode(), wait_s=wait_s)


@pytest.fixture
def requests(sample_questions):
    return [GenerationRequest(f"g{n}", question, "negation", n) for n, question in enumerate(sample_questions[:12])]


@pytest.fixture
def waits():
    return []


@pytest.fixture
def backend(endpoint, waits):
    def make(**settings):
        parsed = OpenAISettings.model_validate({"model": "some-model", "base_url": endpoint.url, **settings})
        return OpenAIBackend(parsed, api_key=SecretStr(KEY), sleep=waits.append, rng=random.Random(1))

    return make


def test_replies_are_concurrent_and_in_order(endpoint, backend, requests):
    endpoint.answer = lambda body, before: completion(str(body["seed"]), wait_s=0.15 if body["seed"] % 3 == 0 else 0.03)

    replies = list(backend(concurrency=4).generate(requests, SAMPLING))

    assert [reply.request_id for reply in replies] == [request.request_id for request in requests]
    assert [reply.text for reply in replies] == [str(request.seed) for request in requests]
    assert 2 <= endpoint.most_at_once <= 4


def test_a_request_says_what_is_wanted_and_token_counts_come_back(endpoint, backend, requests):
    endpoint.answer = lambda body, before: completion("{}")

    [reply] = backend().generate(requests[:1], SAMPLING)

    [body] = endpoint.bodies
    asked = {name: body[name] for name in ("model", "temperature", "top_p", "max_tokens", "seed")}
    assert asked == {"model": "some-model", "temperature": 0.7, "top_p": 0.9, "max_tokens": 100, "seed": 0}
    assert body["response_format"]["json_schema"]["schema"]["properties"]["options"]["minItems"] == 4
    assert body["messages"][0]["role"] == "system"
    assert (reply.failure, reply.prompt_tokens, reply.generated_tokens) == ("", 11, 7)
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again_later_and_later(endpoint, backend, requests, waits, status):
    endpoint.answer = lambda body, before: Answer(status, b"busy") if before < 3 else completion("at last")

    [reply] = backend().generate(requests[:1], SAMPLING)

    assert reply.text == "at last"
    assert len(waits) == 3
    assert all(base * 0.5 <= wait <= base * 1.5 for base, wait in zip((1, 2, 4), waits, strict=True))


def test_the_server_may_ask_for_a_longer_wait(endpoint, backend, requests, waits):
    busy = Answer(429, b"slow down", {"Retry-After": "17"})
    endpoint.answer = lambda body, before: busy if before == 0 else completion("ok")

    list(backend().generate(requests[:1], SAMPLING))

    assert waits == [17.0]


def test_a_server_that_stays_broken_fails_the_request_and_not_the_run(endpoint, backend, requests):
    broken = requests[1].seed
    endpoint.answer = lambda body, before: Answer(500, b"oops") if body["seed"] == broken else completion("ok")

    replies = list(backend(attempts=3).generate(requests[:3], SAMPLING))

    assert [reply.failure for reply in replies] == ["", "error", ""]
    assert "after 3 attempts: the server answered 500 (oops)" in replies[1].detail
    assert len(endpoint.bodies) == 5


def test_a_slow_answer_is_given_up_and_asked_again(endpoint, backend, requests):
    endpoint.answer = lambda body, before: completion("slow", wait_s=5) if before == 0 else completion("fast")

    [reply] = backend(timeout_s=0.3).generate(requests[:1], SAMPLING)

    assert reply.text == "fast"


@pytest.mark.parametrize(
    "body",
    [b"<html><body>Bad gateway</body></html>", b'{"choices": [', b"{}", b'{"choices": []}', b"", b"\xff\xfe", b"null"],
)
def test_a_body_that_is_no_completion_is_an_error_reply(endpoint, backend, requests, body):
    endpoint.answer = lambda asked, before: Answer(200, body)

    [reply] = backend(attempts=2).generate(requests[:1], SAMPLING)

    assert (reply.failure, reply.text) == ("error", "")
    assert "not a chat completion" in reply.detail


def test_a_cut_off_reply_is_truncated_and_a_refusal_an_error(endpoint, backend, requests):
    answers = [completion('{"con', finish="length"), completion(None, refusal="I would rather not"), completion("")]
    endpoint.answer = lambda body, before: answers[body["seed"]]

    replies = list(backend().generate(requests[:3], SAMPLING))

    assert [(reply.failure, reply.text) for reply in replies] == [("truncated", '{"con'), ("error", ""), ("", "")]
    assert "I would rather not" in replies[1].detail


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_address_ends_the_run_at_once(endpoint, backend, requests, waits, status):
    endpoint.answer = lambda body, before: Answer(status, f"no: {KEY}".encode())

    with pytest.raises(BackendError, match=f"answered {status}.*SAGEDESK_OPENAI_API_KEY") as refusal:
        list(backend(concurrency=1).generate(requests, SAMPLING))

    assert KEY not in str(refusal.value)
    assert waits == []


def test_a_bad_request_is_an_error_of_its_own(endpoint, backend, requests, waits):
    too_long = Answer(400, b"this model's maximum context length is 4096")
    endpoint.answer = lambda body, before: too_long if body["seed"] == 0 else completion("ok")

    replies = list(backend().generate(requests[:2], SAMPLING))

    assert [reply.failure for reply in replies] == ["error", ""]
    assert waits == []


@pytest.mark.parametrize(("field", "instead"), [("response_format", None), ("max_tokens", "max_completion_tokens")])
def test_a_declined_field_is_left_out_from_then_on(endpoint, backend, requests, field, instead):
    declining = Answer(400, f"Unsupported parameter: {field}".encode())
    endpoint.answer = lambda body, before: declining if field in body else completion("ok")

    replies = list(backend(concurrency=1).generate(requests[:4], SAMPLING))

    assert [reply.text for reply in replies] == ["ok"] * 4
    assert len(endpoint.bodies) == 5
    assert instead is None or endpoint.bodies[-1][instead] == 100


def test_nobody_at_the_address_is_one_line(requests, waits):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://user:{KEY}@127.0.0.1:{free.getsockname()[1]}/v1"
    settings = OpenAISettings(model="m", base_url=address, attempts=2)

    with pytest.raises(BackendError, match="cannot be reached") as refusal:
        list(OpenAIBackend(settings, sleep=waits.append).generate(requests[:1], SAMPLING))

    assert KEY not in str(refusal.value)
    assert len(waits) == 1


def test_the_key_is_never_logged(endpoint, backend, requests, caplog):
    caplog.set_level(logging.DEBUG)
    endpoint.answer = lambda body, before: (
        Answer(500, f"key {KEY} failed".encode()) if before == 0 else completion("ok")
    )

    replies = list(backend().generate(requests[:2], SAMPLING))

    assert "again in" in caplog.text
    assert KEY not in caplog.text
    assert KEY not in repr(replies)


def test_settings_come_from_the_run_and_secrets_from_the_environment(monkeypatch):
    monkeypatch.setenv("SAGEDESK_OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("SAGEDESK_OPENAI_API_KEY", KEY)

    assert OpenAIBackend.open({"model": "m", "base_url": None}).model == "m"
    with pytest.raises(BackendError, match="setting model"):
        OpenAIBackend.open({})
    with pytest.raises(BackendError, match="setting api_key") as refusal:
        OpenAIBackend.open({"model": "m", "api_key": KEY})
    assert KEY not in str(refusal.value)


def test_a_run_that_is_given_up_stops_asking(endpoint, backend, requests):
    endpoint.answer = lambda body, before: completion("ok", wait_s=0.05)
    replies = backend(concurrency=2).generate(requests * 10, SAMPLING)

    next(replies)
    replies.close()

    assert len(endpoint.bodies) <= 8


def test_a_wait_between_attempts_ends_when_the_run_is_given_up(endpoint, requests):
    busy = Answer(429, b"", {"Retry-After": "60"})
    endpoint.answer = lambda body, before: completion("ok") if body["seed"] == 0 else busy
    replies = OpenAIBackend(OpenAISettings(model="m", base_url=endpoint.url)).generate(requests, SAMPLING)
    assert isinstance(replies, Generator)
    next(replies)

    replies.close()

    deadline = time.monotonic() + 50  # before the server's own 60 s are over
    while any(thread.name.startswith("openai") for thread in threading.enumerate()):
        assert time.monotonic() < deadline, "a thread still waits"
        time.sleep(0.01)


def test_a_cost_estimate_counts_texts_and_the_most_that_may_be_written(requests):
    estimate = cost_estimate(requests, SAMPLING, price_in=1.0, price_out=10.0)

    assert (estimate.requests, estimate.generated_tokens_at_most) == (12, 1200)
    assert 12 * 200 < estimate.prompt_tokens_estimate < 12 * 2000
    assert estimate.cost_at_most == pytest.approx((estimate.prompt_tokens_estimate + 12_000) / 1_000_000)


@pytest.mark.parametrize(
    ("value", "seconds"), [("3", 3.0), ("0.5", 0.5), ("-1", 0.0), ("soon", None), ("nan", None), ("", None)]
)
def test_retry_after_in_seconds(value, seconds):
    assert retry_after_s({"retry-after": value}) == seconds


def test_retry_after_as_a_date():
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)

    assert retry_after_s({"retry-after": then}) == pytest.approx(30, abs=2)
