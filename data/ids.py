"""Content-derived ids: the same question or variant has the same id wherever and whenever it is created."""

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence

from data.records import AnnotationId, QuestionId, VariantId, VariantTypeKey

_ID_HEX_DIGITS = 20
_SPACES = re.compile(r"\s+")


def content_hash(*parts: object) -> str:
    """SHA-256 hex digest of `parts` as canonical JSON (sorted keys, no spaces, UTF-8)."""
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


def question_id(
    context: str, options: Sequence[str], answer_index: int | None, final_answer: str | None = None
) -> QuestionId:
    """Depends on the exact text: a corrected answer key or spelling makes it another question."""
    parts = ("question", context, list(options), answer_index, final_answer)
    return QuestionId("q_" + content_hash(*parts)[:_ID_HEX_DIGITS])


def variant_id(
    question: QuestionId, variant_type: VariantTypeKey, context: str, options: Sequence[str], answer_index: int
) -> VariantId:
    """Depends on the stored order of the options, so a reshuffled variant is another variant."""
    parts = ("variant", question, variant_type, context, list(options), answer_index)
    return VariantId("v_" + content_hash(*parts)[:_ID_HEX_DIGITS])


def label_studio_annotation_id(server: str, ls_annotation_id: int) -> AnnotationId:
    """Id of an annotation created in Label Studio; those created in the console get random ids."""
    return AnnotationId("a_" + content_hash("annotation", server, ls_annotation_id)[:_ID_HEX_DIGITS])


def normal_form(text: str) -> str:
    """The form used to compare texts: NFC, case-folded, white space collapsed."""
    return _SPACES.sub(" ", unicodedata.normalize("NFC", text)).strip().casefold()


def cluster_id(context: str, options: Sequence[str]) -> str:
    """Shared by questions that differ only in case, space, Unicode form or option order; the unit of every split."""
    return "c_" + content_hash("cluster", normal_form(context), sorted(map(normal_form, options)))[:_ID_HEX_DIGITS]


def row_seed(*parts: object) -> int:
    """A 31-bit seed from content, so that batching and order do not change samples."""
    return int(content_hash("seed", *parts)[:8], 16) & 0x7FFFFFFF
