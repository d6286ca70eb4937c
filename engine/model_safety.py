"""Whether a model folder may be loaded: complete safetensors, no pickle, no custom code. Checked before any import.

`trust_remote_code=False` alone is not enough: with `auto_map` in a config, transformers asks on the terminal.
"""

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Final

from data.errors import ModelError
from data.files import file_sha256

PICKLE_SUFFIXES: Final = frozenset(
    {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy", ".npz", ".h5", ".msgpack"}
)
CODE_KEYS: Final = ("auto_map", "custom_pipelines", "trust_remote_code")

# Vocabularies and weight maps cannot name code and may be large.
_DATA_FILES: Final = frozenset({"tokenizer.json", "vocab.json", "model.safetensors.index.json"})
_LARGEST_CONFIG_BYTES: Final = 4_000_000
_LARGEST_HEADER_BYTES: Final = 100_000_000  # the format's own limit
_DESCRIPTIONS: Final = frozenset({"README.md", "manifest.json", ".gitattributes"})


def refuse_unsafe_folder(folder: Path) -> None:
    """Raises ModelError, naming the file, if `folder` is not a safetensors model or contains pickles or code."""
    if not (folder / "config.json").is_file():
        raise ModelError(f"model folder {folder} has no config.json; give the folder that save_pretrained wrote")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for file in files:
        shown = file.relative_to(folder)
        if file.suffix in PICKLE_SUFFIXES:
            raise ModelError(f"model folder {folder}: {shown} may hold a pickle, which can run code; remove it")
        if file.suffix in {".py", ".so"}:
            raise ModelError(f"model folder {folder}: {shown} is code, which a model must not contain; remove it")
        if file.suffix == ".json" and file.name not in _DATA_FILES:
            _refuse_code_keys(file, folder)
    if not any(file.suffix == ".safetensors" for file in files):
        raise ModelError(f"model folder {folder} has no .safetensors file; save the model with save_pretrained")


def refuse_broken_folder(folder: Path) -> None:
    """Raises ModelError, naming the file, if the config names no model type or a weight file is truncated.

    Looks only at sizes and headers, so that a broken download is noticed at once, not after a minute of loading.
    """
    try:
        config = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as exc:
        raise ModelError(f"model folder {folder}: config.json cannot be read ({exc}); fetch the model again") from exc
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelError(f"model folder {folder}: config.json has no model_type; give the folder of a language model")
    for file in sorted(folder.glob("*.safetensors")):
        wanted = _safetensors_size(file)
        if wanted != file.stat().st_size:
            found = f"{file.stat().st_size} bytes" if wanted is None else f"{file.stat().st_size} of {wanted} bytes"
            raise ModelError(f"model folder {folder}: {file.name} is damaged ({found}); fetch the model again")


def folder_fingerprint(folder: Path, *, leaving_out: Collection[str] = ()) -> str:
    """SHA-256 over the names and contents of all files that affect the model's output; about 1 s for 500 MB.

    `leaving_out`: names of files that the caller identifies in another way.
    """
    ignored = _DESCRIPTIONS.union(leaving_out)
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name not in ignored:
            total.update(f"{file.relative_to(folder).as_posix()} {file_sha256(file)}\n".encode())
    return total.hexdigest()


def _safetensors_size(file: Path) -> int | None:
    """The file size according to its own header; None if the header is invalid."""
    try:
        with file.open("rb") as content:
            header_bytes = int.from_bytes(content.read(8), "little")
            if header_bytes > _LARGEST_HEADER_BYTES:
                return None
            header = json.loads(content.read(header_bytes))
        ends = [int(tensor["data_offsets"][1]) for name, tensor in header.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return None
    return 8 + header_bytes + max(ends, default=0)


def _refuse_code_keys(file: Path, folder: Path) -> None:
    shown = file.relative_to(folder)
    if file.stat().st_size > _LARGEST_CONFIG_BYTES:
        raise ModelError(f"model folder {folder}: {shown} is too large for a configuration file; remove it")
    try:
        content = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise ModelError(f"model folder {folder}: {shown} is not JSON ({exc}); fetch the model again") from exc
    if key := _code_key(content):
        raise ModelError(
            f"model folder {folder}: {shown} asks for custom code ({key}), which is never run; use another model"
        )


def _code_key(content: object) -> str | None:
    """The first key, at any depth, that would make transformers import code."""
    pending = [content]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            if found := next((key for key in CODE_KEYS if value.get(key)), None):
                return found
            pending.extend(value.values())
        elif isinstance(value, list):
            pending.extend(value)
    return None
