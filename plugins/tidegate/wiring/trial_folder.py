"""An include folder on trial: a proposed pipeline file among the real ones, to be checked before it is written."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CATALOGS = "catalogs.yaml"


@contextmanager
def open_trial(include: Path, name: str, text: str, catalog_entry: str = "") -> Iterator[Path]:
    """All of the include folder, with this pipeline file in it, and the entry at the end of its catalogs.yaml."""
    with tempfile.TemporaryDirectory(prefix="tidegate-trial-") as folder:
        trial = Path(folder)
        pipelines = trial / "pipelines"
        pipelines.mkdir()
        (pipelines / f"{name}.yaml").write_text(text, encoding="utf-8")
        for file in (include / "pipelines").glob("*.y*ml"):
            if file.stem != name:
                (pipelines / file.name).symlink_to(file.absolute())
        left_out = {"pipelines", *([CATALOGS] if catalog_entry else [])}
        for entry in include.iterdir() if include.is_dir() else ():
            if entry.name not in left_out:
                (trial / entry.name).symlink_to(entry.absolute())
        if catalog_entry:
            catalogs = include / CATALOGS
            before = catalogs.read_bytes() if catalogs.exists() else b""
            (trial / CATALOGS).write_bytes(before + f"\n{catalog_entry}".encode())
        yield trial
