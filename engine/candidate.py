"""Parses a model's reply into a candidate, strictly. Refuses to repair a reply that cannot be parsed.

The reply is one JSON object with nothing around it but white space:

    {"context": "...", "options": ["...", "..."], "answer": 0}

`answer` is the 0-based index of the right option. Prose, a code fence, a second object, an unknown or repeated key,
a number in quotes: each makes the reply malformed; it is counted and its raw text kept.
"""

import json
import re
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from data.errors import ReplyError

MAX_CONTEXT_CHARACTERS: Final = 4000
MAX_OPTION_CHARACTERS: Final = 1000
MAX_OPTIONS: Final = 10

_NUMBER_WORDS: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine")
_ABSTAIN: Final = re.compile(
    r"\W*none of the above (?:\w+ )?(?:options|choices|answers) (?:are|is) suitable\W*", re.IGNORECASE
)

_Text = Annotated[str, Field(min_length=1)]
_Option = Annotated[_Text, Field(max_length=MAX_OPTION_CHARACTERS)]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A variant before it has an id; `answer_index` is 0-based and may be out of range: the contract checks it.

    `is_control`: the last option is an abstain option and not the answer (critical testing).
    """

    context: str
    options: tuple[str, ...]
    answer_index: int
    is_control: bool


class CandidateReply(BaseModel):
    """The reply as the model writes it; lengths are bounded so that constrained decoding terminates."""

    model_config = ConfigDict(extra="forbid", strict=True)

    context: Annotated[_Text, Field(max_length=MAX_CONTEXT_CHARACTERS)]
    options: Annotated[list[_Option], Field(min_length=2, max_length=MAX_OPTIONS)]
    answer: Annotated[int, Field(ge=0, le=MAX_OPTIONS - 1)]


REPLY_SCHEMA: Final[dict[str, Any]] = CandidateReply.model_json_schema()
"""JSON schema of a reply, for constrained decoders."""


def candidate_from_reply(text: str) -> Candidate:
    """The candidate that `text` describes.

    Raises:
        ReplyError: `text` is not one JSON object of REPLY_SCHEMA, or contains characters that cannot be stored;
            the message says what is wrong and where.
    """
    stripped = text.strip()
    if not stripped:
        raise ReplyError("the reply is blank; expected one JSON object")
    try:
        parsed = json.loads(stripped, object_pairs_hook=_without_repeated_keys)
    except json.JSONDecodeError as exc:
        raise ReplyError(_syntax_problem(stripped, exc)) from exc
    except (RecursionError, ValueError) as exc:
        raise ReplyError(f"the reply is not JSON: {exc}") from exc
    if not isinstance(parsed, dict):
        raise ReplyError(f"the reply is a JSON {type(parsed).__name__}; expected an object")
    try:
        reply = CandidateReply.model_validate(parsed)
    except ValidationError as exc:
        raise ReplyError(_schema_problem(exc)) from exc
    for name, value in (("context", reply.context), *((f"options[{i}]", o) for i, o in enumerate(reply.options))):
        _refuse_unstorable(name, value)
    options = tuple(option.strip() for option in reply.options)
    if reply.answer >= len(options):
        raise ReplyError(f"the reply's answer is {reply.answer}, but its {len(options)} options count from 0")
    return Candidate(
        context=reply.context.strip(),
        options=options,
        answer_index=reply.answer,
        is_control=is_abstain(options[-1]) and reply.answer != len(options) - 1,
    )


def reply_text(candidate: Candidate) -> str:
    """The reply that parses back to `candidate`: for rule-based recipes, demonstrations and training completions."""
    return json.dumps(
        {"context": candidate.context, "options": list(candidate.options), "answer": candidate.answer_index},
        ensure_ascii=False,
    )


def is_abstain(option: str) -> bool:
    """Whether `option` is the abstain option, ignoring punctuation: 105 published rows lack the full stop."""
    return _ABSTAIN.fullmatch(option) is not None


def abstain_option(options_above: int) -> str:
    """The last option of critical variants, in HellaSwag-Pro's wording for four (arXiv 2502.11393)."""
    number = _NUMBER_WORDS[options_above - 2] + " " if 2 <= options_above <= 9 else ""
    return f"None of the above {number}options are suitable."


def _without_repeated_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    repeated = sorted({key for key in keys if keys.count(key) > 1})
    if repeated:
        raise ReplyError(f"the reply gives {', '.join(map(repr, repeated))} more than once")
    return dict(pairs)


def _syntax_problem(text: str, exc: json.JSONDecodeError) -> str:
    if "```" in text:
        return "the reply has a code fence around or beside the JSON object; expected the object alone"
    if not text.startswith("{"):
        return f"the reply starts with {text[:20]!r}; expected a JSON object and nothing before it"
    if exc.msg == "Extra data":
        return f"the reply has text after its JSON object: {text[exc.pos : exc.pos + 20]!r}"
    if exc.pos >= len(text) or exc.msg.startswith("Unterminated"):
        return "the reply's JSON object is cut off before its end"
    return f"the reply is not JSON: {exc.msg} at character {exc.pos}"


def _schema_problem(exc: ValidationError) -> str:
    first = exc.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"])) or "reply"
    return f"the reply's {where}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _refuse_unstorable(name: str, value: str) -> None:
    if not value.strip():
        raise ReplyError(f"the reply's {name} is blank")
    bad = next((c for c in value if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t\r"), None)
    if bad is not None:
        raise ReplyError(f"the reply's {name} contains U+{ord(bad):04X}, which is not a text character")
