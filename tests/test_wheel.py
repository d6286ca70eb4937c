"""What the wheel holds: without the sample and the migrations a desk that was installed from it could not start."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    pytest.importorskip("hatchling", reason="needs sagedesk[dev]")
    to = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(to), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    with zipfile.ZipFile(next(to.glob("*.whl"))) as wheel:
        return set(wheel.namelist())


def test_all_five_packages_are_in_the_wheel(members: set[str]) -> None:
    for package in ("ui", "annotation", "engine", "training", "data"):
        sources = {file.relative_to(ROOT).as_posix() for file in (ROOT / package).rglob("*.py")}
        assert sources
        assert sources <= members


def test_the_sample_its_data_card_and_the_migrations_are_in_the_wheel(members: set[str]) -> None:
    wanted = {
        file.relative_to(ROOT).as_posix()
        for folder, pattern in (("samples", "*.jsonl"), ("samples", "README.md"), ("migrations", "*.sql"))
        for file in (ROOT / "data" / folder).glob(pattern)
    }

    assert len(wanted) >= 10
    assert wanted <= members


def test_nothing_but_the_packages_is_in_the_wheel(members: set[str]) -> None:
    tops = {member.split("/")[0] for member in members}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"ui", "annotation", "engine", "training", "data"}


def test_the_sample_is_read_from_inside_an_archive(tmp_path: Path, members: set[str]) -> None:
    archive = tmp_path / "sagedesk.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for name in sorted(name for name in members if name.startswith("data/")):
            packed.write(ROOT / name, name)

    told = subprocess.run(
        [sys.executable, "-c", "from data.samples import sample_variants; print(len(sample_variants()))"],
        env={"PYTHONPATH": str(archive), "PYTHONSAFEPATH": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert int(told.stdout or 0) > 200, told.stderr
