"""Whether a model folder may be loaded: safetensors only, no pickle, no code of its own. Decided before any import.

`trust_remote_code=False` alone is not enough: a config with `auto_map` makes transformers ask on a terminal.
"""

import hashlib
import json
from pathlib import Path
from typing import Final

from data.errors import ModelError

PICKLE_SUFFIXES: Final = frozenset(
    {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".joblib", ".npy", ".npz", ".h5", ".msgpack"}
)
CODE_KEYS: Final = ("auto_map", "custom_pipelines", "trust_remote_code")

# Vocabularies and weight maps name no code and may be large.
_DATA_FILES: Final = frozenset({"tokenizer.json", "vocab.json", "model.safetensors.index.json"})
_LARGEST_CONFIG_BYTES: Final = 4_000_000
_DESCRIPTIONS: Final = frozenset({"README.md", "manifest.json", ".gitattributes"})


def refuse_unsafe_folder(folder: Path) -> None:
    """Raises ModelError, naming the file, when `folder` is no safetensors model or carries pickles or code."""
    if not (folder / "config.json").is_file():
        raise ModelError(f"model folder {folder}: there is no config.json; give the folder that save_pretrained wrote")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    for file in files:
        shown = file.relative_to(folder)
        if file.suffix in PICKLE_SUFFIXES:
            raise ModelError(f"model folder {folder}: {shown} may hold a pickle, which can run code; remove it")
        if file.suffix in {".py", ".so"}:
            raise ModelError(f"model folder {folder}: {shown} is code, which no model may bring; remove it")
        if file.suffix == ".json" and file.name not in _DATA_FILES:
            _refuse_code_keys(file, folder)
    if not any(file.suffix == ".safetensors" for file in files):
        raise ModelError(f"model folder {folder}: there is no .safetensors file; save the model with save_pretrained")


def folder_fingerprint(folder: Path) -> str:
    """SHA-256 over names and contents of every file that decides what the model says; about 1 s for 500 MB."""
    total = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file() and file.name not in _DESCRIPTIONS:
            with file.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            total.update(f"{file.relative_to(folder).as_posix()} {digest}\n".encode())
    return total.hexdigest()


def _refuse_code_keys(file: Path, folder: Path) -> None:
    shown = file.relative_to(folder)
    if file.stat().st_size > _LARGEST_CONFIG_BYTES:
        raise ModelError(f"model folder {folder}: {shown} is too large for a configuration; remove it")
    try:
        content = json.loads(file.read_text("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise ModelError(f"model folder {folder}: {shown} is not JSON ({exc}); fetch the model again") from exc
    if key := _code_key(content):
        raise ModelError(f"model folder {folder}: {shown} asks for code of its own ({key}), which is never run")


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
