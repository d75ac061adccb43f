"""Where an import's files go: checked as `validate` checks them, and written only where nothing stands."""

import os
import tempfile
from pathlib import Path

from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.pipeline_file import PIPELINE_NAME_PATTERN, check_tables_of_others, load_pipeline
from tidegate.errors import ConfigurationError
from tidegate.settings import format_path

CATALOGS = "catalogs.yaml"
DEFAULTS = "defaults.yaml"


def is_declared(include: Path, catalog: str) -> bool:
    """Whether catalogs.yaml has an entry of that name, right or wrong."""
    return (include / CATALOGS).exists() and catalog in read_catalogs(include)


def check_files(include: Path, name: str, pipeline: str, entry: str) -> tuple[list[str], list[str]]:
    """Problems and warnings of the pipeline's text, beside the include folder's other files and the new `entry`.

    ConfigurationError for a name that no pipeline can have: it is a file's name, too.
    """
    if not PIPELINE_NAME_PATTERN.fullmatch(name):
        raise ConfigurationError(
            f"name={name}: no name of a pipeline; choose one with --name: [a-z][a-z0-9_-]*, at most 60 letters"
        )
    with tempfile.TemporaryDirectory(prefix="tidegate-import-") as folder:
        copy = Path(folder)
        (copy / "pipelines").mkdir()
        for file in (CATALOGS, DEFAULTS):
            if (include / file).exists():
                (copy / file).write_bytes((include / file).read_bytes())
        with (copy / CATALOGS).open("a", encoding="utf-8") as catalogs:
            catalogs.write(f"\n{entry}")
        for other in (include / "pipelines").glob("*.y*ml"):
            if other.stem != name:
                (copy / "pipelines" / other.name).symlink_to(other.absolute())
        path = copy / "pipelines" / f"{name}.yaml"
        path.write_text(pipeline, encoding="utf-8")
        try:
            loaded_pipeline = load_pipeline(path)
            check_tables_of_others(copy, name)
        except ConfigurationError as fault:
            return [problem.replace(f"{copy}/", "") for problem in fault.problems], []
        return [], list(loaded_pipeline.warnings)


def write_files(include: Path, name: str, pipeline: str, entry: str, *, overwrite: bool) -> list[str]:
    """Write the pipeline file, and add `entry` to catalogs.yaml unless it is empty; the paths that were written.

    ConfigurationError where the pipeline's file is there, unless it may be overwritten. Catalogs are only ever added.
    """
    path = include / "pipelines" / f"{name}.yaml"
    catalogs = include / CATALOGS
    if path.exists() and not overwrite:
        raise ConfigurationError(
            f"file={format_path(path)}: it is there already, and nothing was written; choose another name with "
            "--name, or "
            "replace it with --overwrite"
        )
    written_files = [path]
    if entry:
        before = catalogs.read_text(encoding="utf-8") if catalogs.exists() else ""
        _replace_text(catalogs, f"{before.rstrip()}\n\n{entry}" if before.strip() else entry)
        written_files.insert(0, catalogs)
    _replace_text(path, pipeline)
    return [format_path(file) for file in written_files]


def _replace_text(path: Path, text: str) -> None:
    """All of it or nothing: a scheduler may read the folder at any moment."""
    temporary_file = path.with_name(f".{path.name}.import")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary_file.write_text(text, encoding="utf-8")
        os.replace(temporary_file, path)
    except OSError as fault:
        raise ConfigurationError(
            f"file={format_path(path)}: cannot be written: {fault.strerror}; give the folder of TIDEGATE_INCLUDE room "
            "and rights, and run the command again"
        ) from fault
