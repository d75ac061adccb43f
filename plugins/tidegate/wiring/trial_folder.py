"""An include folder on trial: a proposed pipeline file among the real ones, to be checked before it is written."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tidegate.errors import ConfigurationError
from tidegate.settings import format_path

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


def write_in_one_step(path: Path, text: str) -> None:
    """Write a file of the include folder, or that which it links to: a reader, or a full disk, never sees half of it.

    `ConfigurationError` if it cannot be written; the file is then as it was.
    """
    place = Path(os.path.realpath(path))
    temporary_file = place.with_name(f".{place.name}.new")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary_file.write_text(text, encoding="utf-8")
        os.replace(temporary_file, place)
    except OSError as fault:
        with suppress(OSError):
            temporary_file.unlink()
        raise ConfigurationError(
            f"file={format_path(path)}: cannot be written: {fault.strerror}; give the folder of TIDEGATE_INCLUDE room "
            "and rights, and run the command again"
        ) from fault
