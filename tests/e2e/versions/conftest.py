"""Airflow with its metadata on PostgreSQL, which runs the version before until a test replaces it."""

from collections.abc import Iterator

import pytest
from e2e.versions.land import Land
from e2e.versions.opening import open_land
from upgrade import older_tree


@pytest.fixture(scope="module")
def land(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Land]:
    if not older_tree.is_there():
        pytest.skip(f"this checkout has no commit {older_tree.VERSION}: fetch its whole history")
    folder = tmp_path_factory.mktemp("versions")
    with open_land(folder, older_tree.unpack(folder / "older")) as land:
        yield land
