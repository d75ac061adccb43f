"""Names of what a pipeline owns: predictable, and never taken for another pipeline's."""

import pytest
from fakes import build_pipeline, build_table
from tidegate.model import resource_names


def test_intermediate_table_is_named_as_the_contract_says() -> None:
    pipeline = build_pipeline(name="orders")
    assert (
        resource_names.name_intermediate_table(pipeline, build_table("lake.shop.orders"))
        == "lake.shop.orders_orders_tmp"
    )


def test_two_pipelines_into_one_table_have_intermediate_tables_of_their_own() -> None:
    table = build_table()
    first_progress, second_progress = (
        resource_names.name_intermediate_table(build_pipeline(table, name=name), table) for name in ("a", "b")
    )
    assert first_progress != second_progress


def test_control_table_lies_in_the_first_tables_namespace() -> None:
    pipeline = build_pipeline(build_table("lake.eu.shop.a"), build_table("lake.other.b"), name="p")
    assert resource_names.name_control_table(pipeline) == "lake.eu.shop.tidegate_p_batches"


def test_batch_number_is_found_in_a_branch_of_our_own() -> None:
    assert resource_names.parse_branch_batch("shop", resource_names.name_branch("shop", 42, "0af3")) == 42


@pytest.mark.parametrize(
    "foreign",
    [
        "main",
        "tidegate_shop",  # the tag
        resource_names.name_branch("shop_eu", 3, "0af3"),
        resource_names.name_branch("sho", 3, "0af3"),
        "tidegate_shop_x_0af3",
        "tidegate_shop_3",
        "tidegate_shop_3_with_more",
        "tidegate_shop__0af3",
        "audit_tidegate_shop_3_0af3",
    ],
)
def test_branch_of_somebody_else_is_never_ours_to_drop(foreign: str) -> None:
    assert resource_names.parse_branch_batch("shop", foreign) is None


def test_branches_of_a_pipeline_named_like_our_batches_are_not_ours() -> None:
    """Pipeline `shop_1` makes `tidegate_shop_1_7_<attempt>`, which must not read as batch 1 of `shop`."""
    assert resource_names.parse_branch_batch("shop", resource_names.name_branch("shop_1", 7, "0af3")) is None


def test_tags_of_two_pipelines_differ() -> None:
    assert resource_names.name_tag("a") != resource_names.name_tag("b")


@pytest.mark.parametrize("backfill", ["0af3", resource_names.REPLAY_ID, resource_names.VERIFY_ID])
def test_branch_of_work_beside_the_flushes_tells_what_it_is_of(backfill: str) -> None:
    branch = resource_names.name_backfill_branch("shop", backfill, number=1, attempt="9f")
    assert resource_names.parse_branch_backfill("shop", branch) == backfill
    assert resource_names.parse_branch_backfill("other", branch) is None
    assert resource_names.parse_branch_batch("shop", branch) is None
