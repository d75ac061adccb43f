"""Prints, as ``airflow pools import`` reads it, the pools ``tidegate_<catalog>`` that are missing.

Called with the paths of ``catalogs.yaml`` and of what ``airflow pools export`` wrote: a changed size stays.
"""

import json
import sys
from collections.abc import Container
from pathlib import Path
from typing import Any

import yaml

SLOTS = 4  # flushes into one catalog at a time; change it in the UI


def missing(catalogs: str, existing: Container[str]) -> dict[str, dict[str, Any]]:
    """Pools by name, for the catalogs in the text of ``catalogs.yaml`` that have none."""
    names = {f"tidegate_{catalog}": catalog for catalog in yaml.safe_load(catalogs)}
    return {
        name: {"slots": SLOTS, "description": f"Flushes into {catalog}", "include_deferred": False}
        for name, catalog in names.items()
        if name not in existing
    }


if __name__ == "__main__":
    known = json.loads(Path(sys.argv[2]).read_text())
    print(json.dumps(missing(Path(sys.argv[1]).read_text(), known)))
