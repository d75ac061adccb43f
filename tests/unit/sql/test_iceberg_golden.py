"""Every statement of include/sql/iceberg, rendered for the cases that break SQL, as a file that people can read.

``REGENERATE_GOLDEN=1 pytest tests/unit/sql/test_iceberg_golden.py`` writes the files anew: read what changed.
"""

import re
from pathlib import Path
from typing import Any

import jinja2
import pytest
from golden_files import compare_with_golden
from tidegate.adapters.sql_templates import SQL_FOLDER, SqlFiles
from tidegate.model.ownership import Ownership, TableKind
from tidegate.schema.data_types import Column, parse_type
from tidegate.sql.pruning import Bound
from tidegate.sql.spark import quote, quote_name, render_literal

GOLDEN = Path(__file__).parents[2] / "golden" / "iceberg"
SQL = SqlFiles("iceberg")
ODD = ("order id", "select", "a`b", "c.d", "größe", "it's", "名前")

MERGE: dict[str, Any] = {
    "target": "lake.shop.orders",
    "branch": "branch_tidegate_shop_7_0af3",
    "source": "lake.shop.orders_shop_tmp",
    "snapshot_id": 8154213786245100123,
    "batch": 7,
    "parts": [(7, "0af3")],
    "keys": [("id", "id")],
    "leaves": [("id",)],
    "values": ["name", "amount"],
}
UNASKED = ("target", "branch", "leaves")  # by audits of rows that the batch holds itself
WITHOUT_LEAVES = {name: value for name, value in MERGE.items() if name != "leaves"}
AUDIT = {**{n: v for n, v in MERGE.items() if n not in UNASKED}, "condition": "amount > 0 -- or not"}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "composite_key": {"keys": [("order_id", "order_id"), ("line", "line")], "leaves": [("order_id",), ("line",)]},
    "nested_key": {"keys": [("k", "k")], "leaves": [("k", "id"), ("k", "at", "zone")]},
    "odd_names": {
        "target": "lake.my shop.or`ders",
        "source": "lake.my shop.or`ders_shop_tmp",
        "keys": [(ODD[0], ODD[0]), (ODD[1], ODD[1])],
        "leaves": [(ODD[0],), (ODD[1],)],
        "values": list(ODD[2:]),
    },
    "key_only": {"values": []},
    "prefix": {
        "keys": [("k_id", "id"), ("k_line", "line")],
        "leaves": [("k_id",), ("k_line",)],
        "values": ["id", "name"],
    },
    "one_struct": {"keys": [("k", None)], "leaves": [("k", "id"), ("k", "line")], "values": ["id", "name"]},
    "bounds": {
        "keys": [("order_id", "order_id"), ("line", "line")],
        "leaves": [("order_id",), ("line",)],
        "bounds": [
            Bound(("order_id",), (("CAST('-5' AS BIGINT)", "CAST('900' AS BIGINT)"),), values=("-5L", "900L")),
            Bound(("line",), (("'a'", "'it\\'s'"),), nulls=True),
        ],
    },
    "quotes_in_attempt": {"parts": [(7, "a'; DROP TABLE t; --\\")]},
}
DELETES = {"deletes": "lake.shop.orders_deletes"}
SEQUENCED: dict[str, Any] = {**MERGE, **DELETES, "values": ["name", "lsn"], "sequence": ["lsn"], "soft": False}
ODD_SEQUENCED: dict[str, Any] = {
    **SEQUENCED,
    **SHAPES["odd_names"],
    "deletes": "lake.my shop.or`ders_deletes",
    "sequence": [ODD[2], ODD[5]],
}
SOFT = {"soft": True, "flag": "_deleted"}
COLUMNS = (Column("id", "BIGINT", False), Column("name", "STRING"))
ODD_KEY = (Column("id", "BIGINT"), Column("order id", "STRING"), Column("name", "STRING"))
ODD_COLUMNS = tuple(Column(name, "STRUCT<`a b`: INT>") for name in ODD)
FOLDED = {
    **MERGE,
    "flag": None,
    "kept": False,
    "groups": False,
    "late": False,
    "given": {"name": ("not_null", ["name"]), "amount": ("always", [])},
}
GROUPED = {
    **MERGE,
    "flag": None,
    "kept": False,
    "groups": True,
    "late": False,
    "values": ["a", "va", "b", "vb", "name"],
    "given": {
        **{name: ("by_sequence", ["va"]) for name in ("a", "va")},
        **{name: ("by_sequence", ["vb"]) for name in ("b", "vb")},
        "name": ("not_null", ["name"]),
    },
}
KEPT = {
    **MERGE,
    "flag": None,
    "kept": True,
    "groups": False,
    "late": False,
    "given": {"name": ("not_kept", ["name", "it's"]), "amount": ("always", [])},
}
UPDATED = {**KEPT, "given": {"name": ("not_kept", ["name"]), "amount": ("first", [])}}
TRUNCATED_KEPT = {**{name: value for name, value in KEPT.items() if name != "late"}, "truncated_at": 900}
HISTORY: dict[str, Any] = {
    **MERGE,
    "changes": "lake.shop.orders_changes",
    "sequence": ["at", "lsn"],
    "values": ["name", "tags", "at", "lsn"],
    "compared": [("name", parse_type("STRING")), ("tags", parse_type("MAP<STRING, STRING>"))],
    "written": [
        ("name", parse_type("STRING")),
        ("tags", parse_type("MAP<STRING, STRING>")),
        ("at", parse_type("TIMESTAMP")),
        ("lsn", parse_type("BIGINT")),
    ],
    "valid_from": "valid_from",
    "valid_to": "valid_to",
    "is_current": "is_current",
}
WOVEN = ("compared", "written", "is_current")
VERSIONS = ("valid_from", "valid_to", "is_current")
ODD_VERSIONS = ("gültig ab", "bis`", "Is current")
REMEMBERED = {
    **{name: value for name, value in HISTORY.items() if name not in WOVEN},
    "axis_type": "TIMESTAMP",
    "is_time": True,
    "asks_rows": True,
    "sequence_type": "STRUCT<`at`: TIMESTAMP, `lsn`: BIGINT>",
}
ODD_HISTORY: dict[str, Any] = {
    **HISTORY,
    **SHAPES["odd_names"],
    "changes": "lake.my shop.or`ders_changes",
    "sequence": [ODD[2], ODD[5]],
    "compared": [(ODD[4], parse_type("STRING"))],
    "written": [(name, parse_type("STRING")) for name in ODD[2:]],
    "valid_from": "gültig ab",
    "valid_to": "bis`",
}
ODD_REMEMBERED = {**REMEMBERED, **{name: value for name, value in ODD_HISTORY.items() if name not in WOVEN}}
STAGED: dict[str, Any] = {
    "kept": False,
    "shape": "0123456789ab",
    "batch": 7,
    "sequence": (),
    "dead_letters": False,
    "properties": {},
    "own": Ownership(TableKind.INTERMEDIATE, "shop", "shop.orders"),
}
DELETES_OWN = Ownership(TableKind.DELETES, "", "shop.it's")
LETTERS_OWN = Ownership(TableKind.DEAD_LETTERS, "shop")
TABLE: dict[str, Any] = {"table": "lake.shop.orders", "columns": COLUMNS, "partition_by": (), "properties": {}}
TABLE |= {"identifiers": (), "pipeline": "it's a shop", "format_version": 2}

UPKEEP: dict[str, Any] = {"catalog": "lake", "table": "shop.orders"}
OLD: dict[str, Any] = {**UPKEEP, "older_than": "2026-01-01 00:00:00"}
DEAD_LETTERS: dict[str, Any] = {
    "table": "lake.shop.tidegate_shop_dead_letters",
    "target": "lake.shop.orders",
    "source": "lake.shop.orders_shop_tmp",
    "snapshot_id": 8154213786245100123,
    "parts": [(7, "0af3")],
    "ids": {"orders": "o-1", "other": ""},
}
ODD_DEAD_LETTERS = {"table": "lake.my shop.d`l", "target": "lake.my shop.it's", "source": "lake.my shop.it's_shop_tmp"}

# batches that are merged as one
PARTS: dict[str, Any] = {"parts": [(6, "0ae2"), (7, "it's")]}
IN_TURN: dict[str, Any] = {**PARTS, "in_turn": True}
OF_SEVERAL: dict[str, tuple[str, dict[str, Any]]] = {
    "merge_append": ("merge_append", {**WITHOUT_LEAVES, **IN_TURN}),
    "merge_upsert_delete": ("merge_upsert_delete", {**MERGE, **IN_TURN}),
    "merge_delete": ("merge_delete", {**MERGE, **IN_TURN}),
    "merge_soft_delete": ("merge_soft_delete", {**MERGE, **IN_TURN, "flag": "_deleted"}),
    "merge_sequenced": ("merge_sequenced", {**SEQUENCED, **IN_TURN, "flag": None}),
    "remember_deletes": ("remember_deletes", {**SEQUENCED, **IN_TURN, "asks_rows": True}),
    "merge_folded": ("merge_folded", {**KEPT, **IN_TURN}),
    "merge_folded-groups": ("merge_folded", {**GROUPED, **IN_TURN}),
    "merge_truncate_folded": ("merge_truncate_folded", {**TRUNCATED_KEPT, **IN_TURN}),
    "merge_history": ("merge_history", {**HISTORY, **PARTS}),
    "remember_changes": ("remember_changes", {**REMEMBERED, **PARTS}),
    "audit_rows": ("audit_rows", {**MERGE, **IN_TURN, "rows": "branch", "condition": "amount > 0"}),
    "write_dead_letters": ("write_dead_letters", {**DEAD_LETTERS, **PARTS, "ranges": [("orders", 0, 5, 9)]}),
    "forget_dead_letters": (
        "forget_dead_letters",
        {
            **{name: DEAD_LETTERS[name] for name in ("table", "target", "ids")},
            "attempts": ["0ae2", "it's"],
            "published": 5,
            "ranges": [("orders", 0, 5, 9)],
        },
    ),
}

OPTIONAL = (
    "is_log_alone",
    "of_row",
    "guarded",
    "by_offset",
    "bounds",
    "batch",
    "in_turn",
    "is_remembered",
)  # what a statement can do without

LIVE: dict[str, Any] = {
    **{name: MERGE[name] for name in ("target", "source", "keys", "leaves", "values")},
    "columns": ["id", "name", "amount"],
    "in_turn": True,
    "flag": None,
    "asks_rows": False,
    "replaces": True,
    "shape": "0123456789ab",
    "uuid": "f5d5e0c5-0000-4000-8000-000000000000",
    "mark": "tidegate.shop.",
    "tag": "tidegate_shop",
}
ROWS = {"asks_rows": True}
LIVE_SOFT = {**LIVE, **ROWS, "columns": [*LIVE["columns"], "_deleted"], "flag": "_deleted"}
LIVE_SEQUENCED = {
    **LIVE, **ROWS, "values": ["name", "lsn"], "columns": ["id", "name", "lsn"], "sequence": ["lsn"], "deletes": None,
    "soft": False,
}  # fmt: skip
LIVE_ODD = {**LIVE, **SHAPES["odd_names"], "columns": list(ODD)}
LIVE_FOLDED = {**LIVE, **ROWS, **{name: FOLDED[name] for name in ("kept", "groups", "given")}}
LIVE_GROUPED = {
    **LIVE_FOLDED, **{name: GROUPED[name] for name in ("kept", "groups", "given", "values")},
    "columns": ["id", *GROUPED["values"], "_deleted"], "flag": "_deleted",
}  # fmt: skip
LIVE_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "live_view_upsert-plain": ("live_view_upsert", LIVE),
    "live_view_upsert-composite_key": (
        "live_view_upsert",
        {**LIVE, **SHAPES["composite_key"], "columns": ["order_id", "line", "name", "amount"]},
    ),
    "live_view_upsert-other_columns": ("live_view_upsert", {**LIVE, **ROWS, "columns": [*LIVE["columns"], "note"]}),
    "live_view_upsert-odd_names": ("live_view_upsert", LIVE_ODD),
    "live_view_append-plain": (
        "live_view_append",
        {**{n: v for n, v in LIVE.items() if n != "leaves"}, "replaces": False},
    ),
    "live_view_append-no_key": (
        "live_view_append",
        {
            **{name: value for name, value in LIVE.items() if name != "leaves"},
            "keys": [],
            "columns": ["name", "amount", "note"],
            "replaces": False,
        },
    ),
    "live_view_delete-plain": ("live_view_delete", {**LIVE, "replaces": False}),
    "live_view_soft_delete-plain": ("live_view_soft_delete", LIVE_SOFT),
    "live_view_sequenced-plain": ("live_view_sequenced", {**LIVE_SEQUENCED, **DELETES}),
    "live_view_sequenced-upsert_only": ("live_view_sequenced", LIVE_SEQUENCED),
    "live_view_sequenced-soft": (
        "live_view_sequenced",
        {**LIVE_SEQUENCED, **DELETES, **SOFT, "columns": [*LIVE_SEQUENCED["columns"], "_deleted"]},
    ),
    "live_view_folded-plain": ("live_view_folded", LIVE_FOLDED),
    "live_view_folded-groups_soft": ("live_view_folded", LIVE_GROUPED),
    "create_live_view-plain": (
        "create_live_view",
        {"view": "lake.my shop.orders_shop_live", "query": "SELECT 1 AS n"},
    ),
}

SIDES: dict[str, Any] = {
    **{name: MERGE[name] for name in ("target", "source", "snapshot_id", "parts", "keys", "leaves", "values")},
    "form": "last",
    "flag": None,
    "table_snapshot_id": 42,
    "bucket_count": 1024,
    "sample_per_million": 10_000,
}
COMPARED: dict[str, Any] = {
    **SIDES,
    "row_leaves": MERGE["leaves"],
    "columns": ["id", "name", "amount"],
    "typed_columns": [(n, parse_type(t)) for n, t in (("id", "BIGINT"), ("name", "STRING"), ("amount", "BINARY"))],
    "last_snapshot_id": 43,
    "seen_parts": [(1, "0af3")],
    "letters": None,
    "forgets": False,
    "is_complete": True,
    "buckets": [3, 900],
}
FIRST = {"max_differences": 100, "max_characters": 200, "binary_columns": ["amount"], "row_key": ["id"]}
SIDES_SEQUENCED = {**SIDES, "form": "sequenced", "values": ["name", "lsn"], "sequence": ["lsn"], "deletes": None}
SHOWN = {"flag": "Gone", "shows_flag": True}
COUNTED = {**COMPARED, **SHOWN, "kinds": ["equal", "missing"]}
COUNTED_FOLDED = {
    **COUNTED, **{name: FOLDED[name] for name in ("kept", "groups", "given", "values")}, "form": "folded",
    "is_complete": False, "is_plain": False, "forgets": True,
}  # fmt: skip
DIFFERENT_ODD = {
    **COMPARED, **FIRST, **SHAPES["odd_names"], "columns": list(ODD),
    "row_leaves": SHAPES["odd_names"]["leaves"], "row_key": list(ODD[:2]),
    "letters": "lake.my shop.l`s", "letters_snapshot_id": 78, "ids": {"it's": "t-1"},
    "typed_columns": [(name, parse_type("MAP<STRING, INT>")) for name in ODD],
}  # fmt: skip
LETTERS_OF = {
    "source": "lake.shop.orders_shop_tmp", "snapshot_id": 42, "parts": [(1, "0af3")], "target": "lake.shop.orders",
    "ids": {"orders": "t-1"},
}  # fmt: skip
COUNTED_OF_PART = {
    **COUNTED, "is_complete": False, "is_plain": True, "may_lack_deletes": False,
    "seen_parts": [(1, "0af3"), (2, "0af4")],
}  # fmt: skip
LAID_OUT: dict[str, Any] = {
    **{name: value for name, value in REMEMBERED.items() if name not in ("branch", "batch", "changes")},
    "compared": HISTORY["compared"], "is_current": "is_current", "is_log_alone": True, "form": "history",
    "written": HISTORY["values"], "values": [*HISTORY["values"], *VERSIONS],
}  # fmt: skip
VERSIONED = {
    **COMPARED, **LAID_OUT, "columns": ["id", *LAID_OUT["values"]], "row_leaves": [("id",), ("valid_from",)],
    "typed_columns": [(name, parse_type("STRING")) for name in ("id", *LAID_OUT["values"])],
    "changes": HISTORY["changes"], "changes_snapshot_id": 44, "kinds": ["equal", "missing"],
}  # fmt: skip
VERIFY_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "verify_buckets-sequenced_soft": (
        "verify_buckets",
        {**SIDES_SEQUENCED, **SHOWN, "hashed_columns": ["s.`id`", "s.`id` IS NULL"]},
    ),
    "verify_buckets-history": (
        "verify_buckets",
        {**SIDES, **LAID_OUT, "hashed_columns": ["s.`id`", "s.`valid_to` IS NULL"]},
    ),
    "verify_counts-history": ("verify_counts", VERSIONED),
    "verify_counts-history_of_part": (
        "verify_counts",
        {**VERSIONED, "sequence": [], "changes_snapshot_id": None, "is_complete": False, "is_plain": False},
    ),
    "verify_counts-folded": ("verify_counts", COUNTED_FOLDED),
    "verify_counts-part_of_log": ("verify_counts", COUNTED_OF_PART),
    "verify_counts-part_of_compacted_log": ("verify_counts", {**COUNTED_OF_PART, "may_lack_deletes": True}),
    "verify_counts-soft": ("verify_counts", {**COUNTED, "form": "soft_delete"}),
    "verify_differences-plain": ("verify_differences", {**COMPARED, **FIRST}),
    "verify_differences-odd_names": ("verify_differences", DIFFERENT_ODD),
    "verify_differences-odd_history": (
        "verify_differences",
        {
            **{name: value for name, value in VERSIONED.items() if name not in ("kinds", "changes")},
            **{name: DIFFERENT_ODD[name] for name in ("target", "source", "keys", "leaves", *FIRST)},
            "written": list(ODD[2:]),
            "values": [*ODD[2:], *ODD_VERSIONS],
            "columns": [*ODD, *ODD_VERSIONS],
            "compared": ODD_HISTORY["compared"],
            "sequence": ODD_HISTORY["sequence"],
            "changes_snapshot_id": None,
            **dict(zip(VERSIONS, ODD_VERSIONS, strict=True)),
            "row_key": [*ODD[:2], ODD_VERSIONS[0]],
            "row_leaves": [*DIFFERENT_ODD["leaves"], ODD_VERSIONS[:1]],
        },
    ),
    "verify_letters-plain": (
        "verify_letters",
        {**LETTERS_OF, "letters": "lake.shop.tidegate_shop_dead_letters", "letters_snapshot_id": 78},
    ),
    "verify_letters-no_ids": (
        "verify_letters",
        {**LETTERS_OF, "letters": "lake.shop.l", "letters_snapshot_id": 78, "ids": {}},
    ),
    "verify_letters-none": ("verify_letters", {**LETTERS_OF, "letters": None}),
    "verify_audit-plain": ("verify_audit", {**COMPARED, "branch": MERGE["branch"], "condition": "amount > 0"}),
    "verify_repair-soft": (
        "verify_repair",
        {**COMPARED, **SHOWN, "form": "soft_delete", "branch": MERGE["branch"], "written": ["name", "amount", "Gone"]},
    ),
    "verify_repair-odd_names": (
        "verify_repair",
        {
            **{name: value for name, value in DIFFERENT_ODD.items() if name not in FIRST},
            "branch": MERGE["branch"],
            "written": DIFFERENT_ODD["values"],
        },
    ),
    "verify_repair-key_alone": ("verify_repair", {**COMPARED, "values": [], "branch": MERGE["branch"], "written": []}),
    "forget_answers-plain": (
        "forget_answers",
        {"target": "lake.my shop.orders_tmp", "property": "tidegate.audit.it's"},
    ),
    "keep_verification-plain": (
        "keep_verification",
        {"target": "lake.my shop.orders", "property": "tidegate.shop.verified", "verification": '{"it\'s": 1}'},
    ),
}

CHANGED: dict[str, Any] = {
    **{name: value for name, value in MERGE.items() if name != "batch"},
    "main": "",
    "truncates": False,
    "flag": None,
    "current": None,
    "hashed_columns": ["t.`id`", "t.`id` IS NULL"],
}
SAMPLED = {**CHANGED, **SHAPES["odd_names"], "columns": list(ODD), "max_samples": 20, "max_characters": 200}
DIFF_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "diff_counts-plain": ("diff_counts", {**CHANGED, "when": None}),
    "diff_counts-when": ("diff_counts", {**CHANGED, **SHAPES["nested_key"], "when": "deleted > 9 -- or so"}),
    "diff_counts-soft": ("diff_counts", {**CHANGED, "flag": "Gone", "when": None}),
    "diff_counts-history": ("diff_counts", {**CHANGED, "current": "is_current", "when": None}),
    "diff_counts-truncated": ("diff_counts", {**CHANGED, "truncates": True, "when": None}),
    "diff_counts-named_branch": ("diff_counts", {**CHANGED, "main": "branch_staging", "when": None}),
    "diff_samples-odd_names": ("diff_samples", {**SAMPLED, "typed_columns": DIFFERENT_ODD["typed_columns"]}),
}
KEY_TEXT = {"key_text": '{"order id": "it\'s", "select": null}', "key_type": "`order id` STRING, `select` BIGINT"}
OF_ROW = {"of_row": "`id` <=> from_json('{\"id\": 7}', '`id` BIGINT', map('mode', 'FAILFAST')).`id`"}
OF_RECORDS: dict[str, Any] = {
    **{name: COMPARED[name] for name in ("source", "last_snapshot_id", "seen_parts")}, "max_characters": 200,
}  # fmt: skip
FOLD_SEQUENCED = {
    name: SIDES_SEQUENCED[name]
    for name in ("source", "snapshot_id", "parts", "keys", "leaves", "values", "sequence", "deletes")
}
EXPLAIN_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "explain_of_key-odd_names": (
        "explain_of_key",
        {**KEY_TEXT, "paths": [(("key", ODD[0]), (ODD[0],)), (("key", ODD[1], "a`b"), (ODD[1], "a`b"))]},
    ),
    "explain_records-plain": ("explain_records", {**OF_RECORDS, "batch": 1, "max_records": 100}),
    "explain_letters-plain": (
        "explain_letters",
        {**OF_RECORDS, "target": "lake.shop.orders", "letters": "lake.my shop.l`s", "letters_snapshot_id": 78},
    ),
    "explain_row-odd_names": (
        "explain_row",
        {**OF_ROW, "target": "lake.my shop.or`ders", "table_snapshot_id": 42, "columns": list(ODD), "max_rows": 10,
         "max_characters": 200},
    ),
    "explain_winner-sequenced": ("explain_winner", FOLD_SEQUENCED),
    "verify_counts-of_one_key": ("verify_counts", {**COUNTED, **OF_ROW, "buckets": None, "is_plain": False}),
}  # fmt: skip

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **LIVE_CASES,
    **DIFF_CASES,
    **VERIFY_CASES,
    **EXPLAIN_CASES,
    "maintain_compact-plain": ("maintain_compact", {**UPKEEP, "delete_files": 10, "deleted_share": 0.1}),
    "maintain_deletes-odd_names": ("maintain_deletes", {**UPKEEP, "catalog": "my-lake", "table": "my shop.it's a`b"}),
    "maintain_expire-plain": ("maintain_expire", {**OLD, "retain_last": 30}),
    "maintain_manifests-plain": ("maintain_manifests", UPKEEP),
    "maintain_orphans-plain": ("maintain_orphans", {**OLD, "prefix_listing": False}),
    "maintain_orphans-object_store": ("maintain_orphans", {**OLD, "prefix_listing": True}),
    **{
        f"{statement}-{shape}": (statement, {**MERGE, **options})
        for statement in ("merge_upsert_delete", "merge_upsert", "merge_delete", "merge_new")
        for shape, options in SHAPES.items()
    },
    **{
        f"merge_append-{shape}": ("merge_append", {n: v for n, v in {**MERGE, **options}.items() if n != "leaves"})
        for shape, options in SHAPES.items()
        if shape != "nested_key"
    },
    **{
        f"{statement}-{shape}": (statement, {**MERGE, **SHAPES[shape], **guard})
        for statement, guard in (
            ("backfill_delete", {"guarded": True}),
            ("backfill_append", {}),
        )
        for shape in ("plain", "odd_names", "key_only")
    },
    "merge_append-no_key": ("merge_append", {**WITHOUT_LEAVES, "keys": []}),
    "merge_append-no_key_one_value": ("merge_append", {**WITHOUT_LEAVES, "keys": [], "values": ["name"]}),
    "merge_soft_delete-plain": ("merge_soft_delete", {**MERGE, "flag": "_deleted"}),
    "merge_soft_delete-key_only": ("merge_soft_delete", {**MERGE, "flag": "_deleted", "values": []}),
    "merge_soft_delete-odd_names": ("merge_soft_delete", {**MERGE, **SHAPES["odd_names"], "flag": "_deleted"}),
    "merge_sequenced-soft": ("merge_sequenced", {**SEQUENCED, **SOFT}),
    "merge_sequenced-plain": ("merge_sequenced", {**SEQUENCED, "flag": None}),
    "merge_sequenced-remembered": ("merge_sequenced", {**SEQUENCED, "flag": None, "is_remembered": True}),
    "merge_sequenced-upsert_only": ("merge_sequenced", {**SEQUENCED, "deletes": None, "flag": None}),
    "merge_sequenced-odd_names": ("merge_sequenced", {**ODD_SEQUENCED, "flag": None}),
    "merge_sequenced-odd_names_soft": ("merge_sequenced", {**ODD_SEQUENCED, **SOFT}),
    "branch_memory-odd_names": (
        "branch_memory",
        {"table": "lake.my shop.it's_deletes", "branch": "tidegate_it's_7_0af3"},
    ),
    "remember_deletes-plain": ("remember_deletes", {**SEQUENCED, "asks_rows": True}),
    "remember_deletes-with_sequence": ("remember_deletes", {**SEQUENCED, "asks_rows": False}),
    "remember_deletes-soft": ("remember_deletes", {**SEQUENCED, "asks_rows": False, "soft": True}),
    "remember_deletes-odd_names": ("remember_deletes", {**ODD_SEQUENCED, "asks_rows": True}),
    "merge_upsert_delete-guarded": ("merge_upsert_delete", {**MERGE, **SHAPES["nested_key"], "guarded": True}),
    "merge_upsert-guarded": ("merge_upsert", {**MERGE, **SHAPES["odd_names"], "guarded": True}),
    "merge_upsert_delete-guarded_one_struct": (
        "merge_upsert_delete",
        {**MERGE, **SHAPES["one_struct"], "guarded": True},
    ),
    "merge_soft_delete-guarded": ("merge_soft_delete", {**MERGE, "flag": "_deleted", "guarded": True}),
    "merge_sequenced-guarded": ("merge_sequenced", {**SEQUENCED, "flag": None, "guarded": True}),
    "remember_deletes-guarded": ("remember_deletes", {**SEQUENCED, "asks_rows": True, "guarded": True}),
    "create_deletes-plain": (
        "create_deletes",
        {"table": "lake.shop.orders_deletes", "columns": COLUMNS, "own": DELETES_OWN},
    ),
    "create_deletes-odd_names": (
        "create_deletes",
        {"table": "lake.my shop.or`ders_deletes", "columns": ODD_COLUMNS, "own": DELETES_OWN},
    ),
    "merge_history-plain": ("merge_history", HISTORY),
    "merge_history-by_timestamp": ("merge_history", {**HISTORY, "sequence": []}),
    "merge_history-key_only": ("merge_history", {**HISTORY, "values": [], "compared": [], "written": []}),
    "merge_history-odd_names": ("merge_history", ODD_HISTORY),
    "remember_changes-plain": ("remember_changes", REMEMBERED),
    "remember_changes-by_timestamp": ("remember_changes", {**REMEMBERED, "sequence": [], "asks_rows": False}),
    "remember_changes-timed_deletes": ("remember_changes", {**REMEMBERED, "asks_rows": False}),
    "remember_changes-odd_names": (
        "remember_changes",
        {**REMEMBERED, **{n: v for n, v in ODD_HISTORY.items() if n not in WOVEN}},
    ),
    "merge_truncate-plain": ("merge_truncate", {**MERGE, "truncated_at": 900}),
    "merge_truncate-nested_key": ("merge_truncate", {**MERGE, **SHAPES["nested_key"], "truncated_at": 900}),
    "merge_truncate-odd_names": ("merge_truncate", {**MERGE, **SHAPES["odd_names"], "truncated_at": 0}),
    "merge_truncate-key_only": ("merge_truncate", {**MERGE, "values": [], "truncated_at": 900}),
    "merge_truncate_folded-kept": ("merge_truncate_folded", TRUNCATED_KEPT),
    "merge_truncate_folded-odd_names": (
        "merge_truncate_folded",
        {**TRUNCATED_KEPT, **SHAPES["odd_names"], "given": {name: ("always", []) for name in ODD[2:]}},
    ),
    "merge_folded-plain": ("merge_folded", FOLDED),
    "merge_folded-kept": ("merge_folded", KEPT),
    "merge_folded-soft": ("merge_folded", {**FOLDED, "flag": "_deleted"}),
    "merge_folded-first": ("merge_folded", UPDATED),
    "merge_folded-first_soft": ("merge_folded", {**UPDATED, "flag": "_deleted"}),
    "merge_folded-first_odd_names": (
        "merge_folded",
        {**UPDATED, **SHAPES["odd_names"], "given": {name: ("first", []) for name in ODD[2:]}},
    ),
    "merge_truncate_folded-first": (
        "merge_truncate_folded",
        {**{name: value for name, value in UPDATED.items() if name != "late"}, "truncated_at": 900},
    ),
    "merge_folded-groups": ("merge_folded", GROUPED),
    "merge_folded-groups_late": ("merge_folded", {**GROUPED, "late": True}),
    "merge_folded-guarded": ("merge_folded", {**FOLDED, "guarded": True, "by_offset": True}),
    "merge_folded-groups_soft": ("merge_folded", {**GROUPED, "flag": "_deleted"}),
    "merge_folded-groups_odd_names": (
        "merge_folded",
        {**GROUPED, **SHAPES["odd_names"], "given": {name: ("by_sequence", [ODD[4]]) for name in ODD[2:]}},
    ),
    "merge_folded-nested_key": ("merge_folded", {**FOLDED, **SHAPES["nested_key"]}),
    "merge_folded-key_only": ("merge_folded", {**FOLDED, "values": [], "given": {}}),
    "merge_folded-odd_names": (
        "merge_folded",
        {**KEPT, **SHAPES["odd_names"], "given": {name: ("not_kept", [name]) for name in ODD[2:]}, "flag": "_deleted"},
    ),
    "audit_rows-branch": ("audit_rows", {**MERGE, "rows": "branch", "condition": "amount > 0"}),
    "audit_rows-upsert": ("audit_rows", {**AUDIT, "rows": "upsert", "leaves": [("id",)]}),
    "audit_rows-delete": ("audit_rows", {**AUDIT, "rows": "delete", "leaves": [("id",)]}),
    "audit_rows-append": ("audit_rows", {**AUDIT, "rows": "append"}),
    "audit_query-plain": (
        "audit_query",
        {"query": "SELECT count(*) > 0 FROM {table} -- x", "target": "lake.shop.orders", "branch": "branch_b"},
    ),
    "create_namespace-plain": ("create_namespace", {"parent": "lake.shop"}),
    "create_namespace-odd_names": ("create_namespace", {"parent": "lake.my shop.a`b"}),
    "create_table-plain": ("create_table", TABLE),
    "create_table-format_3": ("create_table", {**TABLE, "format_version": 3}),
    "create_table-partition_by": ("create_table", {**TABLE, "partition_by": ("days(at)", "bucket(4, `order id`)")}),
    "create_table-properties": (
        "create_table",
        {**TABLE, "properties": {"write.format.default": "orc", "comment": "it's \\ here"}},
    ),
    "create_table-own_modes": (
        "create_table",
        {**TABLE, "properties": {"write.merge.mode": "copy-on-write", "format-version": "2", "comment": "ours"}},
    ),
    "create_table-odd_names": ("create_table", {**TABLE, "table": "lake.my shop.or`ders", "columns": ODD_COLUMNS}),
    "drop_intermediate-plain": ("drop_intermediate", {"table": "lake.shop.orders_shop_tmp"}),
    "create_table-identifiers": ("create_table", {**TABLE, "columns": ODD_KEY, "identifiers": ("id", "order id")}),
    "identify_table-plain": ("identify_table", {"table": "lake.shop.orders", "identifiers": ("id", "order id")}),
    "order_table-plain": ("order_table", {"table": "lake.shop.orders", "cluster_by": ("id", "order id")}),
    "create_intermediate-plain": (
        "create_intermediate",
        {"table": "lake.shop.orders_shop_tmp", "keys": COLUMNS[:1], "values": COLUMNS, **STAGED},
    ),
    "create_intermediate-noted": (
        "create_intermediate",
        {
            "table": "lake.shop.orders_shop_backfill_0123456789_tmp",
            "keys": COLUMNS[:1],
            "values": COLUMNS,
            **STAGED,
            "properties": {"tidegate.backfill": '{"asked": "it\'s"}'},
        },
    ),
    "create_intermediate-dead_letters": (
        "create_intermediate",
        {"table": "lake.shop.orders_shop_tmp", "keys": COLUMNS[:1], "values": COLUMNS, **STAGED, "dead_letters": True},
    ),
    "create_dead_letters-plain": (
        "create_dead_letters",
        {"table": "lake.shop.tidegate_shop_dead_letters", "own": LETTERS_OWN},
    ),
    "write_dead_letters-plain": ("write_dead_letters", {**DEAD_LETTERS, "ranges": [("orders", 0, 5, 9)]}),
    "write_dead_letters-odd_names": (
        "write_dead_letters",
        {**DEAD_LETTERS, **ODD_DEAD_LETTERS, "ranges": [("orders", 0, 5, 9), ("it's", None, 0, 7)]},
    ),
    "replayed_dead_letters-plain": (
        "replayed_dead_letters",
        {**DEAD_LETTERS, "attempt": "0af3", "ranges": [("orders", 0, 5, 9), ("it's", 1, 0, 7)]},
    ),
    "discard_dead_letters-plain": (
        "discard_dead_letters",
        {
            **{name: DEAD_LETTERS[name] for name in ("table", "target")},
            "note": "discarded by ann: it's a test; it was: ",
            "places": [
                {"topic": "orders", "partition": 0, "topic_id": "o-1", "offsets": [5, 7, 8]},
                {"topic": "it's", "partition": 1, "topic_id": "", "offsets": [0]},
            ],
        },
    ),
    "merge_upsert_delete-by_offset": ("merge_upsert_delete", {**MERGE, "guarded": True, "by_offset": True}),
    "merge_sequenced-by_offset": ("merge_sequenced", {**SEQUENCED, "flag": None, "guarded": True, "by_offset": True}),
    "forget_dead_letters-plain": (
        "forget_dead_letters",
        {
            **{name: DEAD_LETTERS[name] for name in ("table", "target", "ids")},
            "attempts": ["0af3"],
            "published": 6,
            "ranges": [("orders", 0, 5, 9), ("it's", 1, 0, 7)],
        },
    ),
    "reread_dead_letters-plain": (
        "reread_dead_letters",
        {
            **{name: DEAD_LETTERS[name] for name in ("table", "target")},
            "attempts": ["0af3"],
            "ids": {"orders": "o-1", "it's": "i'd"},
            "published": 6,
            "ranges": [("orders", 0, 5, 9), ("it's", 1, 0, 7)],
        },
    ),
    "reopen_dead_letters-plain": (
        "reopen_dead_letters",
        {**{name: DEAD_LETTERS[name] for name in ("table", "target")}, "attempts": ["0af3", "it's"]},
    ),
    "create_intermediate-odd_names": (
        "create_intermediate",
        {"table": "lake.my shop.or`ders_shop_tmp", "keys": ODD_COLUMNS[:2], "values": ODD_COLUMNS[2:], **STAGED},
    ),
    "create_intermediate-sequence": (
        "create_intermediate",
        {
            "table": "lake.shop.orders_shop_tmp",
            "keys": COLUMNS[:1],
            "values": COLUMNS,
            **STAGED,
            "sequence": (Column("lsn", "BIGINT"), Column("a`b", "TIMESTAMP")),
        },
    ),
    "create_intermediate-no_key": (
        "create_intermediate",
        {"table": "lake.shop.log_shop_tmp", "keys": (Column("bytes", "BINARY"),), "values": COLUMNS, **STAGED},
    ),
    **{f"{name}-of_several": case for name, case in OF_SEVERAL.items()},
}


@pytest.mark.parametrize("case", CASES)
def test_statement_reads_as_the_golden_file(case: str) -> None:
    statement, values = CASES[case]
    rendered = SQL.render(statement, **values) + "\n"
    compare_with_golden(GOLDEN / f"{case}.sql", rendered)


def list_statements(dialect: str) -> set[str]:
    """Those of one dialect, and those that both share."""
    paths = [path for folder in (dialect, "shared") for path in (SQL_FOLDER / folder).glob("*.sql")]
    return {path.stem for path in paths if not path.stem.startswith("_")}


def test_no_file_of_a_dialect_hides_one_that_both_share() -> None:
    shared = {path.name for path in (SQL_FOLDER / "shared").glob("*.sql")}
    for dialect in ("iceberg", "bigquery"):
        assert shared.isdisjoint(path.name for path in (SQL_FOLDER / dialect).glob("*.sql"))


def test_no_golden_file_without_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sql")} == set(CASES)


def test_no_statement_without_a_case() -> None:
    assert list_statements("iceberg") == {statement for statement, _ in CASES.values()}


@pytest.mark.parametrize(
    ("statement", "name"),
    sorted(
        {(statement, name) for statement, values in CASES.values() for name in values if name not in OPTIONAL}
        - {("explain_winner", "sequence")}  # rows of other tables have none
    ),
)
def test_missing_value_is_an_error_instead_of_an_empty_text(statement: str, name: str) -> None:
    values = next(values for known, values in CASES.values() if known == statement and name in values)
    with pytest.raises(jinja2.UndefinedError, match=name):
        SQL.render(statement, **{key: value for key, value in values.items() if key != name})


@pytest.mark.parametrize("case", CASES)
def test_statement_is_one_that_spark_reads(case: str) -> None:
    """A parser's view; that Spark runs them is shown by the integration tests."""
    import sqlglot

    statement, values = CASES[case]
    plain = re.sub(r" VERSION AS OF \d+", "", SQL.render(statement, **values))
    assert len(sqlglot.parse(plain, read="spark")) == 1


@pytest.mark.parametrize(("name", "sql"), [("a", "`a`"), ("a`b", "`a``b`"), ("a.b", "`a.b`"), ("", "``")])
def test_identifier_cannot_be_broken_out_of(name: str, sql: str) -> None:
    assert quote(name) == sql


def test_table_name_is_quoted_part_by_part() -> None:
    assert quote_name("lake.a b.c`d") == "`lake`.`a b`.`c``d`"


def test_text_cannot_be_broken_out_of() -> None:
    assert render_literal("it's \\") == "'it\\'s \\\\'"


def test_delete_only_append_and_upsert_differ_where_they_must() -> None:
    """Guards against a golden file regenerated without reading it."""
    rendered = {name: SQL.render(name, **MERGE) for name in ("merge_upsert_delete", "merge_upsert", "merge_delete")}
    assert "THEN DELETE" in rendered["merge_upsert_delete"]
    assert "THEN DELETE" not in rendered["merge_upsert"]
    assert "UPDATE SET" not in rendered["merge_delete"]
    assert all("<=>" in sql and " = s.`id`" not in sql for sql in rendered.values())
    assert "MERGE" not in SQL.render("merge_append", **MERGE)
