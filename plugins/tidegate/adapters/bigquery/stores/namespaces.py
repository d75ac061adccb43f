"""Leaves out statements that create an existing dataset: they need a right that nothing else needs."""

import re
from collections.abc import Iterable

from tidegate.adapters.bigquery.client.client import Warehouse

_CREATE_NAMESPACE_PATTERN = re.compile(r"CREATE SCHEMA IF NOT EXISTS `([^`]+)`\.`([^`]+)`\s*")


def drop_existing_namespaces(warehouse: Warehouse, statements: Iterable[str]) -> list[str]:
    """The statements without those that create a dataset which exists.

    BigQuery asks for `bigquery.datasets.create` in the project before it looks whether there is anything to make.
    """
    return [statement for statement in statements if not _is_existing(warehouse, statement)]


def _is_existing(warehouse: Warehouse, statement: str) -> bool:
    match = _CREATE_NAMESPACE_PATTERN.fullmatch(statement)
    return match is not None and warehouse.has_dataset(f"{match[1]}.{match[2]}")
