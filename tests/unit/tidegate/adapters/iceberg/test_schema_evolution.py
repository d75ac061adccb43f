"""How tables with identifier fields, as Flink makes them of a PRIMARY KEY, take a pipeline's columns."""

from pathlib import Path
from typing import Any

import pytest
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import PIPELINE, START, TABLE
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType
from tidegate.errors import IncompatibleSchema
from tidegate.schema.data_types import Column

ADDRESS = StructType(NestedField(5, "city", IntegerType(), required=True), NestedField(6, "zip", StringType()))


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """A table of Flink's with PRIMARY KEY (id, address.city), and another required column."""
    kit = build_iceberg_kit(tmp_path)
    schema = Schema(
        NestedField(1, "id", StringType(), required=True),
        NestedField(2, "n", IntegerType(), required=True),
        NestedField(3, "address", ADDRESS, required=True),
        identifier_field_ids=[1, 5],
    )
    kit.port.tables.catalogs.catalog("lake").create_table("shop.orders", schema, properties={"format-version": "2"})
    kit.port.commits.seed(TABLE, PIPELINE, START)
    return kit


def evolve_table(kit: Kit, *columns: Column, **rules: Any) -> list[str]:
    return kit.port.tables.evolve(TABLE, columns, **{"add": True, "widen": True, "relax": True, **rules})


def test_identifier_fields_stay_required_while_all_else_follows_the_pipeline(kit: Kit) -> None:
    address = Column("address", "STRUCT<city: BIGINT, zip: STRING, street: STRING>")
    wanted_columns = Column("id", "STRING"), Column("n", "INT"), address, Column("note", "STRING")
    relaxed, widened, growth, added = evolve_table(kit, *wanted_columns)
    assert (relaxed, added) == ("relaxed n", "added note STRING")
    assert (widened, growth) == ("widened address.city from INT to BIGINT", "added address.street STRING")
    schema = kit.load(TABLE).schema()
    assert schema.identifier_field_names() == {"id", "address.city"}
    requirements = {name: schema.find_field(name).required for name in ("id", "n", "address", "address.city", "note")}
    assert requirements == {"id": True, "n": False, "address": True, "address.city": True, "note": False}
    assert schema.find_field("address.city").field_type == LongType()
    assert evolve_table(kit, *wanted_columns) == []
    assert kit.state().recorded_position == START


def test_identifier_field_that_the_pipeline_does_not_fill_is_refused_with_the_way_out(kit: Kit) -> None:
    columns = Column("id", "STRING"), Column("n", "INT"), Column("address", "STRUCT<zip: STRING>")
    for left_out in (columns, columns[1:]):
        with pytest.raises(
            IncompatibleSchema, match=r"one of the table's identifier fields.*drop the table's identifier"
        ):
            evolve_table(kit, *left_out)
    with pytest.raises(IncompatibleSchema, match=r"column=address\.city: one of the table's identifier fields"):
        evolve_table(kit, *columns)
    assert not kit.load(TABLE).schema().find_field("n").optional, "nothing is changed"


@pytest.mark.parametrize(("partition", "was"), [("bucketed", BucketTransform(4)), ("region", IdentityTransform())])
def test_name_that_a_partition_has_or_had_is_refused_for_another_column_with_the_way_out(
    tmp_path: Path, partition: str, was: Any
) -> None:
    kit = build_iceberg_kit(tmp_path)
    schema = Schema(NestedField(1, "id", StringType()), NestedField(2, "region", StringType()))
    table = kit.port.tables.catalogs.catalog("lake").create_table(
        "shop.orders", schema, partition_spec=PartitionSpec(PartitionField(2, 1000, was, partition))
    )
    with table.update_spec() as spec:
        spec.remove_field(partition)
    with table.update_schema() as change:
        change.delete_column("region")
    wanted_columns = Column("id", "STRING"), Column("note", "STRING"), Column(partition, "STRING")
    with pytest.raises(IncompatibleSchema, match=rf"added {partition} STRING.*: {partition}; .*another name"):
        evolve_table(kit, *wanted_columns)
    assert kit.load(TABLE).schema().column_names == ["id"], "nothing is changed"
    assert evolve_table(kit, *wanted_columns[:2]) == ["added note STRING"]
