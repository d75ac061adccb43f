"""A proposed pipeline file and its catalog entry: checked on trial among the real files, then written in one step."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml

from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.models.settings import NAME_PATTERN
from tidegate.config.pipeline_file import check_tables_of_others, load_all_pipelines, load_pipeline
from tidegate.errors import ConfigurationError
from tidegate.settings import format_path
from tidegate.spec.pipeline import Pipeline

CATALOGS = "catalogs.yaml"


def is_declared(include: Path, catalog: str) -> bool:
    """Whether catalogs.yaml has an entry of that name, right or wrong."""
    return (include / CATALOGS).exists() and catalog in read_catalogs(include)


def find_new_file(include: Path, name: str) -> Path:
    """`ConfigurationError` for a name that no pipeline can have."""
    if not NAME_PATTERN.fullmatch(name):
        raise ConfigurationError(
            f"name={name}: no name of a pipeline; choose one with --name: [a-z][a-z0-9_-]*, at most 60 letters"
        )
    return include / "pipelines" / f"{name}.yaml"


def refuse_existing(path: Path, option: str) -> None:
    """`option`: the one that replaces the file."""
    if path.exists():
        raise ConfigurationError(
            f"file={format_path(path)}: it is there already, and nothing was written; choose another name with "
            f"--name, or replace it with {option}"
        )


def check_files(include: Path, name: str, pipeline: str, entry: str = "") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return problems and warnings of the pipeline's text, beside the other files and the new `entry`."""
    later_folder = format_path(find_new_file(include, name)).removesuffix(f"/pipelines/{name}.yaml")
    with open_trial(include, name, pipeline, entry) as trial:
        try:
            loaded_pipeline = load_pipeline(trial / "pipelines" / f"{name}.yaml")
            check_tables_of_others(trial, name)
        except ConfigurationError as fault:
            return tuple(problem.replace(str(trial), later_folder) for problem in fault.problems), ()
        # two pipelines of one table have no common order of records
        own_tables = {table.name.casefold() for table in loaded_pipeline.tables}
        other_writers = [
            f"pipeline={other_name} writes {table.name} already; "
            "two pipelines of one table overwrite each other's rows of a key"
            for other_name, other in load_all_pipelines(trial)
            if isinstance(other, Pipeline) and other_name != name
            for table in other.tables
            if table.name.casefold() in own_tables
        ]
        return (), (*loaded_pipeline.warnings, *other_writers)


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


def write_files(include: Path, name: str, pipeline: str, entry: str = "") -> list[str]:
    """Write the pipeline file, and add `entry` to catalogs.yaml unless it is empty; return the paths.

    `ConfigurationError` if catalogs.yaml takes no entry at its end.
    """
    written_files = [find_new_file(include, name)]
    if entry:
        catalogs = include / CATALOGS
        before = catalogs.read_text(encoding="utf-8") if catalogs.exists() else ""
        text = f"{before.rstrip()}\n\n{entry}" if before.strip() else entry
        try:
            yaml.compose(text)
        except yaml.YAMLError:
            raise ConfigurationError(
                f"file={format_path(catalogs)}: no catalog can be added at its end, as it stands in braces or is no "
                f"YAML; nothing was written; add this by hand, or write each catalog on lines of its own:\n{entry}"
            ) from None
        write_in_one_step(catalogs, text)
        written_files.insert(0, catalogs)
    write_in_one_step(written_files[-1], pipeline)
    return [format_path(file) for file in written_files]


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
