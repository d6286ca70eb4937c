"""Freezes accepted variants into a folder, completely or not at all, and later proves that it is unchanged.

    README.md       dataset card; its `configs:` make `datasets.load_dataset(folder)` work
    data/*.parquet  one file per variant type, and the questions
    manifest.json   counts, ids, verifier versions, SHA-256 of every other file; its own SHA-256 is kept in the store

Refuses to choose what is released: the caller passes the items.
"""

import hashlib
import json
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from data.errors import ReleaseError
from data.export import ReleaseItem, write_configs
from data.files import file_sha256, sync, sync_tree
from data.release_card import card

MANIFEST: Final = "manifest.json"
MANIFEST_FORMAT: Final = 1

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_UNFINISHED: Final = ".unfinished-"


@dataclass(frozen=True, slots=True)
class StagedRelease:
    """A complete release under a temporary name; `publish` gives it its final name."""

    temporary: Path
    folder: Path
    manifest_sha256: str

    def publish(self) -> None:
        """Raises ReleaseError if the folder exists by now."""
        _refuse_existing(self.folder)
        try:
            self.temporary.rename(self.folder)
            sync(self.folder.parent)
        except OSError as exc:
            raise ReleaseError(
                f"release folder {self.folder} cannot be moved into place: {exc.strerror}; try again"
            ) from exc


def check_name(name: str) -> None:
    """Raises ReleaseError unless `name` is valid as a folder and dataset name everywhere."""
    if not _NAME.fullmatch(name):
        raise ReleaseError(
            f"release name {name!r} is not valid; use 1 to 64 characters from a-z, 0-9, dot, underscore and hyphen, "
            f"starting with a letter or digit, such as 'mini-1.0'"
        )


@contextmanager
def staged_release(
    root: Path,
    *,
    name: str,
    number: int,
    items: Sequence[ReleaseItem],
    created_at: datetime,
    code_version: str,
) -> Iterator[StagedRelease]:
    """Write the release under a temporary name in `root`; the block then calls `publish`.

    Without `publish`, or if the block raises, nothing is left behind.

    Raises:
        ReleaseError: an invalid or taken name, nothing to release, or a disk error.
    """
    check_name(name)
    folder = root / name
    _refuse_existing(folder)
    if not items:
        raise ReleaseError(
            f"release {name!r} would be empty: no variant is accepted yet; review variants, then create the release"
        )
    temporary = root / f"{_UNFINISHED}{name}-{secrets.token_hex(4)}"
    try:
        staged = StagedRelease(temporary, folder, _write(temporary, name, number, items, created_at, code_version))
    except BaseException as exc:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(exc, OSError):
            raise ReleaseError(
                f"release {name!r} cannot be written to {root}: {exc.strerror or exc}; free disk space and try again"
            ) from exc
        raise
    try:
        yield staged
    except BaseException:
        if not temporary.exists():  # already published, and then the store refused
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@dataclass(frozen=True, slots=True)
class ManifestSummary:
    """A manifest's counts: `variants` and `by_type` count variants, `questions` their originals."""

    name: str
    number: int
    created_at: str
    code_version: str
    variants: int
    questions: int
    by_type: Mapping[str, int]
    verifier_versions: tuple[str, ...]
    variant_ids: tuple[str, ...]


def read_manifest(folder: Path) -> ManifestSummary:
    """Raises ReleaseError if it is missing or damaged."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        counts = manifest["counts"]
        return ManifestSummary(
            name=manifest["name"],
            number=manifest["number"],
            created_at=manifest["created_at"],
            code_version=manifest["code_version"],
            variants=counts["variants"],
            questions=counts["questions"],
            by_type=counts["by_type"],
            verifier_versions=tuple(manifest["verifier_versions"]),
            variant_ids=tuple(manifest["variant_ids"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ReleaseError(
            f"{folder / MANIFEST} is missing or damaged: {exc}; run `sagedesk release verify` to see what changed"
        ) from exc


def verify_release(folder: Path, manifest_sha256: str) -> list[str]:
    """What differs from the release as created, one line per file, sorted; empty if nothing does.

    Files that the manifest does not list count too. If the manifest itself has changed, its list is not trusted and
    that is all that is reported.
    """
    if not folder.is_dir():
        return [f"{folder}: the folder is missing"]
    manifest_file = folder / MANIFEST
    try:
        content = manifest_file.read_bytes()
    except OSError as exc:
        return [f"{MANIFEST}: cannot be read: {exc.strerror}"]
    if hashlib.sha256(content).hexdigest() != manifest_sha256:
        return [f"{MANIFEST}: changed since the release was created, so no other file can be checked"]
    expected: Mapping[str, str] = json.loads(content)["files"]
    found = {
        file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_symlink() or not file.is_dir()
    }
    problems = [f"{name}: not part of the release" for name in found - expected.keys() - {MANIFEST}]
    for name, sha256 in expected.items():
        if name not in found:
            problems.append(f"{name}: missing")
        elif file_sha256(folder / name) != sha256:
            problems.append(f"{name}: changed")
    return sorted(problems)


def remove_unfinished(root: Path) -> list[Path]:
    """Remove what interrupted exports left in `root` and return it; call at desk start, before any export."""
    leftovers = sorted(root.glob(_UNFINISHED + "*")) if root.is_dir() else []
    for leftover in leftovers:
        shutil.rmtree(leftover, ignore_errors=True)
    return leftovers


def _refuse_existing(folder: Path) -> None:
    if folder.exists():
        raise ReleaseError(
            f"release {folder.name!r}: the folder {folder} already exists, and a release is never overwritten; "
            f"choose another name"
        )


def _write(
    folder: Path, name: str, number: int, items: Sequence[ReleaseItem], created_at: datetime, code_version: str
) -> str:
    """Returns the manifest's SHA-256, once everything is on disk."""
    (folder / "data").mkdir(parents=True)
    configs = write_configs(items, folder / "data")
    by_type = Counter(item.variant.variant_type for item in items)
    (folder / "README.md").write_text(
        card(
            name=name,
            number=number,
            items=items,
            config_files={config: file.relative_to(folder).as_posix() for config, file in configs.items()},
            created_at=created_at,
            code_version=code_version,
        ),
        "utf-8",
    )
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    manifest = {
        "format": MANIFEST_FORMAT,
        "name": name,
        "number": number,
        "created_at": created_at.isoformat(),
        "code_version": code_version,
        "counts": {
            "variants": len(items),
            "questions": len({item.question.question_id for item in items}),
            "by_type": dict(by_type),
        },
        "verifier_versions": sorted({verdict.verifier_version for item in items for verdict in item.verdicts}),
        "variant_ids": [item.variant.variant_id for item in items],
        "files": {file.relative_to(folder).as_posix(): file_sha256(file) for file in files},
    }
    manifest_file = folder / MANIFEST
    manifest_file.write_text(json.dumps(manifest, ensure_ascii=False, indent=2, sort_keys=True) + "\n", "utf-8")
    sync_tree(folder)
    return file_sha256(manifest_file)
