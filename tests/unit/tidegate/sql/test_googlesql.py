"""Names as GoogleSQL writes them, in templates and beside them."""

import pytest
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.commit import render_staged_assertion, writes_into
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.model.batch import StagedPart
from tidegate.model.table_state import StagedSource
from tidegate.spec.pipeline import Catalog
from tidegate.sql.googlesql import quote_name


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("p.shop.orders", "`p`.`shop`.`orders`"),
        ("example.com:p.shop.orders", "`example.com:p`.`shop`.`orders`"),
        ("example.com:p.shop", "`example.com:p`.`shop`"),
        ("orders", "`orders`"),
    ],
)
def test_each_part_of_a_name_is_quoted_and_the_project_of_a_domain_is_one_part(name: str, quoted: str) -> None:
    """BigQuery looked for a project `example`, and refused each publish."""
    assert quote_name(name) == quoted


def test_statements_of_a_domains_project_name_it_as_the_templates_do() -> None:
    warehouse = Warehouse(Catalog("dwh", "bigquery", {"project": "example.com:p"}), lambda _: None)
    reference = warehouse.to_reference("dwh.shop.orders")
    statement = SqlFiles("bigquery", {"dwh": "example.com:p"}).render(
        "remove_rows", target="dwh.shop.orders", bounds=()
    )
    assert writes_into(statement, quote_name(reference))
    source = StagedSource("dwh.shop.orders_shop_tmp", (StagedPart(6, "0ae2"), StagedPart(7, "0af3")))
    assertion = render_staged_assertion(reference, source, 5)
    assert "FROM `example.com:p`.`shop`.`orders` WHERE batch_number IN (6, 7) AND attempt IN ('0ae2'," in assertion
