"""Commits to Iceberg: what each answer of a catalog means, what is required, and what others have set that stays."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import FIRST, PIPELINE, SECOND, STAGED, TABLE
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException, NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotRefUpdate, SetPropertiesUpdate, SetSnapshotRefUpdate
from sqlalchemy.exc import OperationalError
from tidegate.adapters.iceberg import commit as iceberg_commit
from tidegate.adapters.iceberg.commit import commit, cut_branch
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.staging import _drop_staged
from tidegate.errors import CommitRefused, ConfigurationError, GiveUp, OutcomeUnknown

FEW_VERSIONS = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
DAY_MS = 86_400_000


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    return build_iceberg_kit(tmp_path)


class Answers:
    """A catalog that commits, or not, and answers with an error."""

    def __init__(self, catalog: Any, error: Exception) -> None:
        self.name, self.error = catalog.name, error

    def commit_table(self, *_: Any) -> None:
        raise self.error


@pytest.mark.guard(
    "a missing answer is not a refusal",
    file="plugins/tidegate/adapters/iceberg/commit.py",
    text="        raise OutcomeUnknown(\n",
    off="        raise CommitRefused(\n",
)
@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (CommitFailedException("main moved"), CommitRefused),
        (NoSuchTableError("dropped meanwhile, as a REST server says it"), CommitRefused),
        (CommitStateUnknownException("504"), OutcomeUnknown),
        (OperationalError("INSERT", {}, Exception("database is locked")), OutcomeUnknown),
    ],
)
def test_answer_of_the_catalog_tells_a_refusal_from_an_unknown_outcome(
    kit: Kit, error: Exception, meaning: type[Exception]
) -> None:
    table = kit.seed_table().load(TABLE)
    table.catalog = Answers(table.catalog, error)
    with pytest.raises(meaning) as error_info:
        commit(table, ())
    if meaning is OutcomeUnknown:
        assert re.match(
            rf"table={re.escape(TABLE)}: .* may have been made; the table is read again: ", str(error_info.value)
        )


class WithoutReferences:
    """A catalog of real tables that answers well, and keeps no reference but main, as Nessie's REST catalog does."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        kept_updates = [
            update for update in updates if not isinstance(update, SetSnapshotRefUpdate) or update.ref_name == "main"
        ]
        metadata = self._catalog.commit_table(table, requirements, tuple(kept_updates)).metadata
        main = {name: at for name, at in metadata.refs.items() if name == "main"}
        return SimpleNamespace(metadata=metadata.model_copy(update={"refs": main}))


def test_catalog_that_keeps_no_references_is_refused_in_words(kit: Kit) -> None:
    table = kit.seed_table().load(TABLE)
    rows = table.scan().to_arrow().to_pylist()
    table.catalog = WithoutReferences(table.catalog)
    at = (str(table.metadata.table_uuid), table.metadata.current_snapshot_id)
    with pytest.raises(
        ConfigurationError, match=rf"^table={re.escape(TABLE)}: .*keeps no tags and branches .*=cut are"
    ):
        cut_branch(table, at, "cut")
    assert set(kit.load(TABLE).metadata.refs) == set(table.metadata.refs)
    assert kit.load(TABLE).scan().to_arrow().to_pylist() == rows


class WithLaterAnswers:
    """A catalog whose answer is the table as it is by then: another run's clean-up came between, and dropped `cut`."""

    def __init__(self, catalog: Any) -> None:
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        self._catalog.commit_table(table, requirements, updates)
        return self._catalog.commit_table(table.refresh(), (), (RemoveSnapshotRefUpdate(ref_name="cut"),))


def test_answer_without_a_branch_that_another_run_has_dropped_meanwhile_says_nothing_of_the_catalog(kit: Kit) -> None:
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    table = kit.load(TABLE)
    table.catalog = WithLaterAnswers(table.catalog)
    cut_branch(table, (str(table.metadata.table_uuid), table.metadata.current_snapshot_id), "cut")
    assert "cut" not in kit.load(TABLE).metadata.refs


def list_versions(kit: Kit) -> list[str]:
    folder = Path(kit.load(TABLE).location().removeprefix("file://")) / "metadata"
    return sorted(path.name for path in folder.glob("*.metadata.json"))


def keep_few_versions(kit: Kit) -> Kit:
    with kit.seed_table().load(TABLE).transaction() as transaction:
        transaction.set_properties(FEW_VERSIONS)
    for _ in range(3):
        kit.touch()
    return kit


@pytest.mark.guard(
    "old metadata that cannot be deleted does not fail a commit",
    file="plugins/tidegate/adapters/iceberg/files.py",
    text="        except Exception as error:\n",
    off="        except FileNotFoundError as error:\n",
)
def test_old_metadata_that_cannot_be_deleted_does_not_fail_the_publish(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    publication = keep_few_versions(kit).merge_branch(FIRST)

    def refuse(*_: Any) -> None:
        raise PermissionError("access denied")

    with monkeypatch.context() as patch:
        patch.setattr(PyArrowFileIO, "delete", refuse)
        kit.port.commits.publish(publication)
    assert kit.state().position == FIRST
    assert [row["id"] for row in kit.read_rows(TABLE)] == ["m1"]
    assert "access denied" in caplog.text
    before = len(list_versions(kit))
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    assert len(list_versions(kit)) == before  # each later commit deletes what it replaces


def test_old_metadata_of_a_rest_catalog_is_deleted_by_its_server_alone(kit: Kit) -> None:
    table = keep_few_versions(kit).load(TABLE)
    local = table.catalog

    class Rest(RestCatalog):
        def __init__(self) -> None:
            """Nothing is connected to."""

        def commit_table(self, *args: Any) -> Any:
            return local.commit_table(*args)

    table.catalog = Rest()
    before = set(list_versions(kit))
    commit(table, (SetPropertiesUpdate(updates={"a": "b"}),))
    assert before < set(list_versions(kit))


@pytest.mark.guard(
    "a clean-up keeps what was staged meanwhile",
    file="plugins/tidegate/adapters/iceberg/staging.py",
    text="    commit(table, updates, (main,))\n",
    off="    commit(table, updates)\n",
)
def test_batches_that_were_staged_since_the_table_was_read_survive_a_clean_up(kit: Kit) -> None:
    kit.stage(1, "a1", 2)
    staged_table = kit.load(STAGED)
    kit.stage(1, "a2", 3)
    with pytest.raises(CommitRefused):
        _drop_staged(staged_table, 1, [], [staged_table.current_snapshot().snapshot_id], [])
    assert len(kit.read_rows(STAGED)) == 3
    assert kit.port.staging.read_staged_outcome(STAGED, "a1") is not None
    kit.port.staging.clean_up(STAGED, 1)
    emptied_table = kit.load(STAGED)  # without rows to delete there is no snapshot, whose number would be refused
    kit.stage(2, "a3", 4)
    with pytest.raises(CommitRefused):
        _drop_staged(emptied_table, 1, [], [], [])
    assert len(kit.read_rows(STAGED)) == 4


def retain(kit: Kit, ref: str, snapshot_id: int, **retention: int) -> None:
    """ALTER TABLE … CREATE OR REPLACE BRANCH … RETAIN …"""
    table = kit.load(TABLE)
    set_snapshot_ref_update = SetSnapshotRefUpdate(
        ref_name=ref, type=SnapshotRefType.BRANCH, snapshot_id=snapshot_id, **retention
    )
    commit(table, (set_snapshot_ref_update,))


def read_retention(kit: Kit, ref: str) -> dict[str, Any]:
    reference = kit.load(TABLE).metadata.refs[ref]
    return {
        name: getattr(reference, name) for name in ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")
    }


def test_publish_keeps_the_retention_that_a_user_has_set_on_main(kit: Kit) -> None:
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    assert set(read_retention(kit, "main").values()) == {None}
    retain(kit, "main", kit.state().snapshot_id, max_snapshot_age_ms=7 * DAY_MS, min_snapshots_to_keep=20)
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    retention = {"max_ref_age_ms": None, "max_snapshot_age_ms": 7 * DAY_MS, "min_snapshots_to_keep": 20}
    assert (kit.state().position, read_retention(kit, "main")) == (SECOND, retention)


def test_publish_keeps_the_retention_of_a_named_branch_and_its_tag_lives_for_ever(kit: Kit) -> None:
    kit.port = build_iceberg_destination(kit.port.tables.catalogs, {TABLE: "staging"})
    kit.seed_table().port.commits.publish(kit.merge_branch(FIRST))
    assert read_retention(kit, "staging")["max_ref_age_ms"] == iceberg_commit.FOREVER_MS
    retain(kit, "staging", kit.state().snapshot_id, max_ref_age_ms=90 * DAY_MS, min_snapshots_to_keep=3)
    kit.port.commits.publish(kit.merge_branch(SECOND, attempt="m2"))
    retention = {"max_ref_age_ms": 90 * DAY_MS, "max_snapshot_age_ms": None, "min_snapshots_to_keep": 3}
    assert (kit.state().position, read_retention(kit, "staging")) == (SECOND, retention)
    assert read_retention(kit, f"tidegate_{PIPELINE}")["max_ref_age_ms"] == iceberg_commit.FOREVER_MS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("position", "nonsense"),
        ("position", "[1]"),
        ("position", '{"orders":{"0":"x"}}'),
        ("batch", "one"),
        ("topic-ids", ""),
    ],
)
def test_property_that_somebody_wrote_over_is_told_and_found_again_once_it_is_removed(
    kit: Kit, name: str, text: str
) -> None:
    kit.seed_table()
    before, changed = kit.state(), f"tidegate.{PIPELINE}.{name}"
    with kit.load(TABLE).transaction() as change:
        change.set_properties({changed: text})
    with pytest.raises(GiveUp, match=rf"properties tidegate\.{PIPELINE}\.\* .* remove tidegate\.{PIPELINE}\.position"):
        kit.state()
    with kit.load(TABLE).transaction() as change:
        change.remove_properties(f"tidegate.{PIPELINE}.position")
    assert (kit.state().position, kit.state().is_rolled_back) == (before.position, False)
