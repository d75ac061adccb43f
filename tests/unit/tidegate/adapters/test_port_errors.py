"""What a library says of a failure: in one line, and without the secrets of addresses that it quotes."""

import pytest
from sqlalchemy.exc import OperationalError
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.errors import judge_error
from tidegate.adapters.port_errors import format_one_line, to_unexpected_error
from tidegate.adapters.schema_registry.client import Registry
from tidegate.errors import ConfigurationError, RetryLater


def test_statement_and_parameters_of_a_database_are_left_out() -> None:
    error = OperationalError("SELECT geheim", {"x": "geheim"}, Exception("the database\n  is locked"))
    assert format_one_line(error) == "the database is locked"


def test_address_that_a_library_quotes_loses_its_secrets() -> None:
    from requests.exceptions import MissingSchema

    quoted = MissingSchema("Invalid URL 'htps:/x': perhaps you meant https://u:geheim@h/x?token=geheim?")
    known = judge_error(Catalogs({"lake": {}}), "read_state", "lake.a.b", quoted)
    assert isinstance(known, RetryLater)
    for error in (known, to_unexpected_error("read_state", "table=lake.a.b", ValueError(str(quoted)))):
        assert "geheim" not in str(error)
        assert "https://***@h/x?token=***" in str(error)


def test_address_of_a_registry_that_its_client_refuses_loses_its_login() -> None:
    registry = Registry("registry_prod", {"url": "htps://u:geheim@registry"})
    with pytest.raises(ConfigurationError, match="registry=registry_prod: its settings are not usable") as error_info:
        registry.read_versions("orders-value")
    assert "geheim" not in str(error_info.value)
    assert "htps://***@registry" in str(error_info.value)
