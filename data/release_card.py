"""The dataset card of a release: the YAML for dataset loaders, and a page for people.

Nothing from outside goes into the YAML; benchmark names go into the page as code, so that markup in them is inert.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from data.dimensions import DIMENSIONS
from data.export import ALL_CONFIG, QUESTIONS_CONFIG, ReleaseItem

_SIZES: Final = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))

_TEMPLATE: Final = """\
---
pretty_name: {name}
task_categories:
- multiple-choice
- question-answering
size_categories:
- {size}
tags:
- robustness
- benchmark-variants
configs:
{configs}
---

# {name}

Release {number} of a set of benchmark variants. Each item is a question changed in one of seven ways, judged by a
verifier and accepted by people on {dimension_count} dimensions.

| | |
|---|---|
| variants | {variants} |
| original questions | {questions} |
| source benchmarks | {benchmarks} |
| verifier versions | {verifiers} |
| created | {created_at} with sagedesk {code_version} |

## Variants by type

| config | variants | controls among them |
|---|---|---|
{types}

Config `{all_config}` (the default) holds all variants, `{questions_config}` the original questions. Every config has
one split, `test`.

```python
from datasets import load_dataset

variants = load_dataset("path/to/{name}", split="test")
one_type = load_dataset("path/to/{name}", "{first_type}", split="test")
```

## Fields

- `context`, `options`, `answer_index` (from 0): the variant. `original_*`, `benchmark`, `source_key`, `subject`,
  `source_note`: the question it was made from.
- `is_control`: a variant whose original answer is still correct, by design.
- `recipe_*`, `shuffle_seed`, `run_id`: how it was generated.
- `contract_checks`: the checks that a program decides.
- `verdicts`: the verifier's probabilities. `decision`: the team's final answers.
- `labels`: each annotator's answers, under a pseudonym used in this release only; `is_blind` if given before the
  verdicts were shown.

Annotators were asked:

{dimensions}

## Verify the files

`manifest.json` holds the SHA-256 of every file; `sagedesk release verify {name}` checks them. The original questions
keep the licences of their sources.
"""


def card(
    *,
    name: str,
    number: int,
    items: Sequence[ReleaseItem],
    config_files: Mapping[str, str],
    created_at: datetime,
    code_version: str,
) -> str:
    """`config_files` maps each config to its one file in the release; `name` is a checked release name."""
    by_type = Counter(item.variant.variant_type for item in items)
    controls = Counter(item.variant.variant_type for item in items if item.variant.is_control)
    type_files = [file for config, file in config_files.items() if config != QUESTIONS_CONFIG]
    return _TEMPLATE.format(
        name=name,
        number=number,
        size=next((size for bound, size in _SIZES if len(items) < bound), "n>1M"),
        configs="\n".join(
            [_config(ALL_CONFIG, type_files, is_default=True)]
            + [_config(config, [file], is_default=False) for config, file in config_files.items()]
        ),
        dimension_count=len(DIMENSIONS),
        variants=len(items),
        questions=len({item.question.question_id for item in items}),
        benchmarks=_codes({item.question.benchmark for item in items}),
        verifiers=_codes({verdict.verifier_version for item in items for verdict in item.verdicts}),
        created_at=created_at.strftime("%Y-%m-%d %H:%M UTC"),
        code_version=code_version,
        types="\n".join(f"| `{key}` | {by_type[key]} | {controls[key]} |" for key in sorted(by_type)),
        all_config=ALL_CONFIG,
        questions_config=QUESTIONS_CONFIG,
        first_type=min(by_type),
        dimensions="\n".join(f"- {dimension.key}, {dimension.name}: {dimension.question}" for dimension in DIMENSIONS),
    )


def _config(name: str, files: Sequence[str], *, is_default: bool) -> str:
    lines = [f"- config_name: {name}", *(["  default: true"] if is_default else []), "  data_files:", "  - split: test"]
    return "\n".join([*lines, "    path:", *(f"    - {file}" for file in files)])


def _codes(names: set[str]) -> str:
    plain = (" ".join(name.replace("`", "'").replace("|", "/").split()) for name in sorted(names))
    return ", ".join(f"`{name}`" for name in plain if name) or "none"
