"""The doctor's trial commit leaves nothing behind, and touches nothing beside it."""

from pathlib import Path

from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.probe import IcebergProbe


def test_trial_table_leaves_no_folder_in_a_warehouse_whose_path_reads_like_an_escape(tmp_path: Path) -> None:
    warehouse, unescaped = tmp_path / "a%20b", tmp_path / "a b"
    beside = unescaped / "shop" / "tidegate_trial"
    beside.mkdir(parents=True)
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{warehouse}"}
    probe = IcebergProbe(Catalogs({"lake": properties}), "lake")
    (finding,) = probe.check_namespace("shop", "tidegate_trial")
    assert finding.check == "catalog.commit"
    assert list((warehouse / "shop").iterdir()) == []
    assert beside.is_dir()
