"""A question read as a story: the scene set by its context and the sentence that an option completes.

HellaSwag contexts end in an unfinished stem ("... The woman") and options continue it; others end with a full stop
and options are sentences of their own. A context that asks a question ("Which of these ...?") is not a story.
"""

import re
from typing import Final

from data.records import Question
from engine.wording import sentences

_FINISHED: Final = re.compile(r"[.!?。！？…][\"'”’)\]]*$")
_ASKS: Final = re.compile(r"[?？:：_]\s*$|_{2,}|\[(?:header|title|step)\]")
_OPENING: Final = re.compile(r"[^\W\d_]")


def is_story(question: Question) -> bool:
    """Whether an option continues the context, judging by its form: it neither asks a question nor has a gap."""
    return not _ASKS.search(question.context.strip()) and bool(scene(question))


def scene(question: Question) -> tuple[str, ...]:
    """The complete sentences of the context, without the unfinished stem at its end; may be empty."""
    found = sentences(question.context.strip())
    return tuple(map(capitalised, found if found and _FINISHED.search(found[-1]) else found[:-1]))


def ending(question: Question, option: str) -> str:
    """The sentence that `option` makes with the stem of the context: capitalised, with a full stop."""
    found = sentences(question.context.strip())
    stem = found[-1] if found and not _FINISHED.search(found[-1]) else ""
    text = option.strip()
    glue = "" if not stem or text.startswith(("'", "’", ",", ".", ";")) else " "
    joined = capitalised(f"{stem}{glue}{text}")
    return joined if _FINISHED.search(joined) else f"{joined.rstrip(',;')}."


def capitalised(sentence: str) -> str:
    """`sentence` with its first letter in upper case, skipping quotation marks."""
    first = _OPENING.search(sentence)
    if first is None:
        return sentence
    return sentence[: first.start()] + first.group(0).upper() + sentence[first.end() :]
