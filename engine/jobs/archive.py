"""A run folder's transfer to a worker and back, as a folder or a tar file.

An exported run is complete: copies of the models named in the settings, an index of them, and `SHA256SUMS` over all
files that must not change. An imported one is not trusted: refuses names that lead out of the folder, links, devices,
and more data than fits on the disk.
"""

import hashlib
import io
import json
import lzma
import re
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from data.errors import InputError
from data.files import file_sha256
from engine.jobs.folder import MODEL_INDEX, RunFolder

SUMS: Final = "SHA256SUMS"
MODELS: Final = "models"

_MODEL_MARKS: Final = ("config.json", "feature-verifier.json")
_MODEL_SUFFIXES: Final = frozenset({".safetensors", ".gguf", ".json", ".txt", ".jinja", ".model", ".spm", ".tiktoken"})
_STAY_AT_HOME: Final = frozenset({"lock", "result.json", MODELS, SUMS})
_GROWING: Final = frozenset({"events.jsonl", "log.txt"})
_NOT_TAKEN_IN: Final = frozenset({"run.json", "inputs", "lock", MODELS, SUMS})
_MOST_MEMBERS: Final = 100_000
_SHARE_OF_FREE_ROOM: Final = 0.9  # the desk's own store is on that disk too


@dataclass(frozen=True, slots=True)
class Member:
    """A file in the archive: `name` with slashes, relative to the run folder; `content` is a file or bytes."""

    name: str
    content: Path | bytes


def model_copies(settings: object) -> dict[str, str]:
    """Every model folder named in the settings by an absolute path, with the name of its copy.

    A copy has the weights as safetensors or GGUF and the text files, including the tokenizer's. Everything else is left
    out: hidden files and folders, Python files, pickled weights (which no job loads), documents.
    """
    copies: dict[str, str] = {}
    for reference in _texts(settings):
        folder = Path(reference)
        if reference in copies or not folder.is_absolute():
            continue
        if any((folder / mark).is_file() for mark in _MODEL_MARKS):
            name = re.sub(r"[^A-Za-z0-9._-]", "_", folder.name).strip(".") or "model"
            taken = set(copies.values())
            copies[reference] = next(
                one for one in (name, *(f"{name}-{number}" for number in range(2, len(taken) + 3))) if one not in taken
            )
    return copies


def members(folder: RunFolder, copies: Mapping[str, str]) -> Iterator[Member]:
    """Everything a worker needs, checksums last. Links in the run folder are skipped, links in a model followed.

    Raises:
        OSError: a file cannot be read.
    """
    sums = []
    for member in _members(folder, copies):
        if member.name not in _GROWING:
            sums.append(f"{_sha256(member.content)}  {member.name}\n")
        yield member
    yield Member(SUMS, "".join(sums).encode())


def write_folder(goal: Path, content: Iterator[Member]) -> None:
    """Writes a new folder. Raises OSError."""
    for name in ("inputs", "outputs"):
        (goal / name).mkdir(parents=True)
    for member in content:
        file = goal / member.name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(member.content, bytes):
            file.write_bytes(member.content)
        else:
            shutil.copyfile(member.content, file)


def write_tar(goal: Path, name: str, content: Iterator[Member]) -> None:
    """Writes a new tar file with everything under `name`. Raises OSError."""
    with tarfile.open(goal, "x", format=tarfile.PAX_FORMAT) as tar:
        for folder in (name, f"{name}/inputs", f"{name}/outputs"):
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(info)
        for member in content:
            info = tarfile.TarInfo(f"{name}/{member.name}")
            if isinstance(member.content, bytes):
                info.size = len(member.content)
                tar.addfile(info, io.BytesIO(member.content))
                continue
            with member.content.open("rb") as file:
                stat = member.content.stat()
                info.size, info.mtime = stat.st_size, stat.st_mtime
                tar.addfile(info, file)


def unpacked(source: Path, scratch: Path) -> Path:
    """Unpacks a tar file's run folder below `scratch`, without its models.

    Raises:
        InputError: it is not a tar file, is truncated, has no run folder, or contains something unsafe.
        OSError: it cannot be read, or the disk is full.
    """
    try:
        with tarfile.open(source, "r:*") as tar:
            found = _safe_members(tar, source)
            root = _root([name for name, info in found if info.isfile()], source)
            wanted = [
                (name.relative_to(root), info)
                for name, info in found
                if info.isfile() and name.is_relative_to(root) and name.relative_to(root).parts[0] != MODELS
            ]
            _refuse_more_than_fits(sum(info.size for _, info in wanted), scratch, source)
            for name, info in wanted:
                content = tar.extractfile(info)
                assert content is not None  # noqa: S101  (a regular file)
                (scratch / name).parent.mkdir(parents=True, exist_ok=True)
                with content, (scratch / name).open("xb") as out:
                    shutil.copyfileobj(content, out)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as exc:
        raise InputError(f"{source} is not a complete tar file ({exc}); copy it from the worker again") from exc
    return scratch


def refuse_links(folder: Path) -> None:
    """Raises InputError, naming it, for anything below `folder` (except models) that is neither a file nor a folder."""
    for path in folder.rglob("*"):
        inner = path.relative_to(folder)
        if inner.parts[0] != MODELS and (path.is_symlink() or not (path.is_file() or path.is_dir())):
            raise InputError(f"{folder}: {inner} is a link or a device, which cannot be imported; remove it")


def copy_back(root: Path, scratch: Path) -> None:
    """Copies what a worker produced from its folder to `scratch`. Raises OSError."""
    for path in root.iterdir():
        if not _is_made(path):
            continue
        if path.is_dir():
            shutil.copytree(path, scratch / path.name)
        else:
            shutil.copy2(path, scratch / path.name)


def put_in_place(scratch: Path, home: Path, trash: Path) -> None:
    """Replaces files in the run folder by a worker's from `scratch`, the result last; all on one disk."""
    trash.mkdir()
    for path in sorted(scratch.iterdir(), key=lambda it: (it.name == "result.json", it.name)):
        if not _is_made(path):
            continue
        if (home / path.name).exists():
            (home / path.name).rename(trash / path.name)
        path.rename(home / path.name)


def _members(folder: RunFolder, copies: Mapping[str, str]) -> Iterator[Member]:
    for file in sorted(folder.path.rglob("*")):
        inner = file.relative_to(folder.path)
        is_wanted = inner.parts[0] not in _STAY_AT_HOME and not inner.parts[0].startswith(".")
        if not is_wanted or file.is_symlink() or not file.is_file() or file.suffix == ".tmp":
            continue
        if inner.as_posix() == "events.jsonl":
            events = file.read_bytes()
            yield Member(
                "events.jsonl", events[: events.rfind(b"\n") + 1]
            )  # a killed job may have left an incomplete line
        else:
            yield Member(inner.as_posix(), file)
    for reference, name in copies.items():
        for file in sorted(Path(reference).rglob("*")):
            inner = file.relative_to(reference)
            is_hidden = any(part.startswith(".") for part in inner.parts)
            if file.suffix in _MODEL_SUFFIXES and not is_hidden and file.is_file():
                yield Member(f"{MODELS}/{name}/{inner.as_posix()}", file)
    if copies:
        yield Member(f"{MODELS}/{MODEL_INDEX}", json.dumps(copies, indent=2, sort_keys=True).encode())


def _is_made(path: Path) -> bool:
    """Whether a direct child of a run folder is produced by the job."""
    return path.name not in _NOT_TAKEN_IN and not path.name.startswith(".")


def _safe_members(tar: tarfile.TarFile, source: Path) -> list[tuple[PurePosixPath, tarfile.TarInfo]]:
    found: list[tuple[PurePosixPath, tarfile.TarInfo]] = []
    seen: set[PurePosixPath] = set()
    for info in tar:
        name = PurePosixPath(info.name)
        what = (
            "leads out of the folder"
            if name.is_absolute() or ".." in name.parts
            else "is a link or a device"
            if not (info.isfile() or info.isdir())
            else "occurs twice"
            if info.isfile() and name in seen
            else None
        )
        if what is None and len(found) >= _MOST_MEMBERS:
            raise InputError(f"{source} contains more than {_MOST_MEMBERS:,} files; pack only the run folder")
        if what is not None:
            raise InputError(f"{source}: {info.name[:200]!r} {what}; nothing was unpacked, pack the run folder again")
        seen.add(name)
        found.append((name, info))
    return found


def _root(names: Sequence[PurePosixPath], source: Path) -> PurePosixPath:
    roots = [name.parent for name in names if name.name == "run.json" and len(name.parts) <= 2]
    if len(roots) != 1:
        raise InputError(f"{source} contains {len(roots)} run folders; pack only the one that was sent to the worker")
    return roots[0]


def _refuse_more_than_fits(size_bytes: int, scratch: Path, source: Path) -> None:
    room = int(shutil.disk_usage(scratch).free * _SHARE_OF_FREE_ROOM)
    if size_bytes > room:
        raise InputError(f"{source} unpacks to {size_bytes:,} bytes, but there is space for only {room:,}; free some")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(one)


def _sha256(content: Path | bytes) -> str:
    return hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else file_sha256(content)
