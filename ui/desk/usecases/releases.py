"""Releases: create one from accepted variants, list, show, and verify that a folder is unchanged."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from data import releases
from data.records import Release
from data.tables.releases import ReleaseTable
from ui.desk.context import Actor, Desk, audit, require_lead


@dataclass(frozen=True, slots=True)
class ReleaseDetail:
    """A release with figures from its manifest; `variants` and `questions` are counts."""

    release: Release
    code_version: str
    variants: int
    questions: int
    by_type: Mapping[str, int]
    verifier_versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReleaseProof:
    """`problems` names each changed, missing or added file; empty if the release is intact."""

    name: str
    folder: str
    is_intact: bool
    problems: tuple[str, ...]


def create_release(desk: Desk, actor: Actor, *, name: str) -> ReleaseDetail:
    """Freezes all accepted variants under `name`, completely or not at all.

    Raises:
        PermissionDeniedError: `actor` is not a lead.
        ReleaseError: the name is invalid or taken, nothing is accepted, or the disk fails.
    """
    require_lead(desk, actor, "release.create", name)
    releases.check_name(name)
    now = desk.now()
    with desk.store.read() as connection:
        table = ReleaseTable(connection)
        table.refuse_taken(name)
        number = table.next_number()
        items = table.accepted_items()
    with releases.staged_release(
        desk.settings.releases,
        name=name,
        number=number,
        items=items,
        created_at=now,
        code_version=desk.supervisor.code_version,
    ) as staged:
        release = Release(name, number, str(staged.folder), staged.manifest_sha256, len(items), actor.name, now)
        with desk.store.write() as connection:
            ReleaseTable(connection).add(release, [item.variant.variant_id for item in items])
            audit(
                desk,
                actor,
                "release.create",
                name,
                within=connection,
                at=now,
                number=number,
                items=len(items),
                manifest_sha256=staged.manifest_sha256,
            )
            staged.publish()
    return _detail(release)


def list_releases(desk: Desk, actor: Actor) -> list[Release]:
    """Newest first."""
    with desk.store.read() as connection:
        return ReleaseTable(connection).all()


def show_release(desk: Desk, actor: Actor, *, name: str) -> ReleaseDetail:
    """Raises NotFoundError for an unknown name, ReleaseError if its manifest cannot be read."""
    with desk.store.read() as connection:
        release = ReleaseTable(connection).get(name)
    return _detail(release)


def verify_release(desk: Desk, actor: Actor, *, name: str) -> ReleaseProof:
    """Compares the folder with the original release. Raises NotFoundError for an unknown name."""
    with desk.store.read() as connection:
        release = ReleaseTable(connection).get(name)
    problems = tuple(releases.verify_release(Path(release.folder), release.manifest_sha256))
    return ReleaseProof(name, release.folder, not problems, problems)


def _detail(release: Release) -> ReleaseDetail:
    manifest = releases.read_manifest(Path(release.folder))
    return ReleaseDetail(
        release=release,
        code_version=manifest.code_version,
        variants=manifest.variants,
        questions=manifest.questions,
        by_type=manifest.by_type,
        verifier_versions=manifest.verifier_versions,
    )
