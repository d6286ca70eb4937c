"""`make bench-learning`: what training brings, on public rows with mechanical labels; writes docs/learning.md.

    python -m tests.bench.learning [--folder FOLDER] [--page PAGE] [STAGE ...]

Runs the stages named, all without a name, each once: what is in FOLDER is not made again (`stages.py`), so a run that
was stopped goes on. Then the page is written from what is in FOLDER, with the figures of that run and no others.
Two cores and two to three hours; nicely, so that the machine stays usable. Needs ../shared/data and `make setup`.

A chapter is a module with STAGES and one with `chapter(folder, images)` that yields Markdown lines: name both below.
"""

import argparse
import logging
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

os.environ.setdefault("OMP_NUM_THREADS", "2")  # before anything imports torch

from tests.bench.learning import generator, generator_chapter, language, verifier, verifier_chapter
from tests.bench.learning.stages import Stage, run_stage

ROOT: Final = Path(__file__).parents[3]
STAGES: Final[Mapping[str, Stage]] = {**generator.STAGES, **verifier.STAGES, **language.STAGES}
CHAPTERS: Final[tuple[Callable[[Path, Path], Iterator[str]], ...]] = (
    generator_chapter.chapter,
    verifier_chapter.chapter,
)
_NICENESS: Final = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.learning", description="measure what training brings")
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)}; all if left out")
    parser.add_argument("--folder", type=Path, default=ROOT / "var" / "bench-learning", help="what stages leave")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "learning.md", help="the page to write")
    given = parser.parse_args()
    if unknown := [name for name in given.stages if name not in STAGES]:
        parser.error(f"unknown stage {unknown[0]}; known are {', '.join(STAGES)}")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    os.nice(_NICENESS)
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.stages or STAGES:
        run_stage(given.folder, name, STAGES[name])
    write_page(given.folder, given.page)
    return 0


def write_page(folder: Path, page: Path) -> None:
    """The page and its plots, from what the stages have found so far."""
    images = page.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    lines = [
        "# What training brings",
        "",
        (
            "Written by `make bench-learning`; all figures come from one run, with the embedded models, on "
            f"{os.cpu_count()} CPU cores ({platform.machine()}), torch {version('torch')}, TRL {version('trl')}. "
            "Wall times were measured on a machine that others used at the same time."
        ),
        "",
        (
            "Rows come from HellaSwag-Pro (arXiv 2502.11393, English, 800 questions, seven variants each). Labels are "
            "mechanical: a published variant that passes its contract counts as valid, a corruption of it (wrong key, "
            "second right option, duplicate option, wrong type, unchanged context) as failing on the dimension that it "
            "breaks. They stand in for people's labels and are easier to learn. Questions are split once; no question "
            "is on two sides of a split."
        ),
        "",
    ]
    for chapter in CHAPTERS:
        lines.extend(chapter(folder, images))
    page.write_text("\n".join(lines).rstrip() + "\n", "utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
