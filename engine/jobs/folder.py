"""The run folder: the complete interface between the desk and a job, on this machine or another.

run.json        kind, settings, seeds, code version, hashes of the inputs (written by the desk, never changed)
inputs/*.parquet
events.jsonl    progress, metrics and messages, one JSON object per line, appended and flushed as they happen
log.txt         the job's stdout, stderr and logging
outputs/        what the job produces; may contain part files before the end
models/         in an exported run: copies of the model folders named in the settings, and index.json, which maps
                each reference to the name of its copy
result.json     written last, by rename: if present, the job ended by itself
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from data.errors import JobError
from data.files import file_sha256, whole_file, write_json

MODEL_INDEX: Final = "index.json"

ResultState = Literal["done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The content of `run.json`. `settings` depends on the job kind; `inputs` maps file names to SHA-256."""

    run_id: str
    kind: str
    settings: Mapping[str, object]
    seed: int
    code_version: str
    inputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The content of `result.json`. `error` is one line for the user, empty when done."""

    state: ResultState
    counts: Mapping[str, object]
    error: str


class RunFolder:
    """Paths of one run folder, and safe reads and writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inputs = path / "inputs"
        self.outputs = path / "outputs"
        self.models = path / "models"
        self.events = path / "events.jsonl"
        self.log = path / "log.txt"

    @classmethod
    def create(
        cls,
        path: Path,
        *,
        run_id: str,
        kind: str,
        settings: Mapping[str, object],
        seed: int,
        code_version: str,
        inputs: Mapping[str, pa.Table],
    ) -> "RunFolder":
        """Write inputs and `run.json` into a new folder.

        Raises:
            JobError: the folder already exists or cannot be written.
        """
        folder = cls(path)
        try:
            path.mkdir(parents=True)
            folder.inputs.mkdir()
            folder.outputs.mkdir()
            hashes = {}
            for name, table in inputs.items():
                file = folder.inputs / f"{name}.parquet"
                pq.write_table(table, file)
                hashes[file.name] = file_sha256(file)
            spec = RunSpec(run_id, kind, dict(settings), seed, code_version, hashes)
            write_json(path / "run.json", {name: getattr(spec, name) for name in spec.__dataclass_fields__})
        except OSError as exc:
            raise JobError(
                f"run {run_id}: cannot write its folder {path}: {exc.strerror or exc}; check disk space and permissions"
            ) from exc
        return folder

    def spec(self) -> RunSpec:
        """Raises JobError if `run.json` is missing or invalid."""
        try:
            return RunSpec(**json.loads((self.path / "run.json").read_text("utf-8")))
        except (OSError, ValueError, TypeError) as exc:
            raise JobError(f"{self.path} is not a run folder ({exc}); give a folder that contains run.json") from exc

    def model(self, reference: str) -> Path:
        """The folder of a model named in the settings: its copy in an exported run, otherwise the reference itself.

        Its content is not checked here; `engine.model_safety` and the registry do that.

        Raises:
            JobError: `models/index.json` is damaged, or names a missing copy.
        """
        index = self.models / MODEL_INDEX
        try:
            name = json.loads(index.read_text("utf-8")).get(reference)
        except FileNotFoundError:
            return Path(reference)
        except (OSError, ValueError, AttributeError) as exc:
            raise JobError(f"{index} is damaged ({exc}); export the run again") from exc
        if name is None:
            return Path(reference)
        copy = self.models / str(name)
        if copy.parent != self.models or copy.name == ".." or not copy.is_dir():
            raise JobError(f"{index} names a copy {str(name)!r} of {reference} that is missing; export the run again")
        return copy

    def read_input(self, name: str) -> pa.Table:
        return pq.read_table(self.inputs / f"{name}.parquet")

    def write_output(self, name: str, table: pa.Table) -> Path:
        """Write `outputs/NAME.parquet` by rename, so that a partly written file is never read."""
        file = self.outputs / f"{name}.parquet"
        with whole_file(file) as temporary:
            pq.write_table(table, temporary)
        return file

    def read_output(self, name: str) -> pa.Table:
        return pq.read_table(self.outputs / f"{name}.parquet")

    def has_output(self, name: str) -> bool:
        return (self.outputs / f"{name}.parquet").exists()

    def finish(self, result: RunResult) -> None:
        write_json(
            self.path / "result.json", {"state": result.state, "counts": dict(result.counts), "error": result.error}
        )

    def clear_result(self) -> None:
        """Call before a resume: removes the result and keeps the outputs."""
        (self.path / "result.json").unlink(missing_ok=True)

    def result(self) -> RunResult | None:
        """None unless the job has ended by itself."""
        try:
            return RunResult(**json.loads((self.path / "result.json").read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as exc:
            raise JobError(f"{self.path / 'result.json'} is damaged ({exc}); resume the run") from exc

    def ended_at(self) -> datetime | None:
        """When the job wrote its result; None unless it has ended by itself."""
        try:
            return datetime.fromtimestamp((self.path / "result.json").stat().st_mtime, UTC)
        except FileNotFoundError:
            return None

    def read_events(self, offset: int = 0) -> Iterator[tuple[int, Mapping[str, object]]]:
        """(offset after the line, event) from byte `offset`; an incomplete last line is left for the next call."""
        if not self.events.exists():
            return
        with self.events.open("rb") as lines:
            lines.seek(offset)
            for line in lines:
                if not line.endswith(b"\n"):
                    return
                offset += len(line)
                yield offset, json.loads(line)
