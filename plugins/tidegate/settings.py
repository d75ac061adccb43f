"""Where the product looks before the first record is read: the one place that reads its own settings."""

import getpass
import os
import socket
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
NAMED_FOLDERS = ("pipelines", "publications")  # of an include folder: each file in them is named after one
PACKAGED_FILES = PACKAGE / "files"  # only a wheel has it: what lies beside plugins/ in a checkout
FileStamp = tuple[int, int] | None
# what proposes the first pipeline file; topic and table are for the reader to fill in
FIRST_COMMAND = "tidegate init --topic TOPIC --to CATALOG.NAMESPACE.TABLE"


def is_checkout() -> bool:
    """Whether this code runs from a checkout, or from an image that copies one; else it was installed with pip."""
    return not PACKAGED_FILES.is_dir()


def find_product_folder() -> Path:
    """Return the folder with the product's own ``include/sql``, ``jobs`` and ``local/jars``."""
    return PACKAGE.parents[1] if is_checkout() else PACKAGED_FILES


def find_home_folder() -> Path:
    """Return the folder of the user's files: `TIDEGATE_HOME`, else the checkout, else Airflow's home."""
    if home := os.environ.get("TIDEGATE_HOME"):
        return _resolve_folder(home)
    return find_product_folder() if is_checkout() else find_airflow_home()


def find_airflow_home() -> Path:
    return _resolve_folder(os.environ.get("AIRFLOW_HOME") or "~/airflow")


def find_include_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder with ``pipelines/`` and ``catalogs.yaml``: `TIDEGATE_INCLUDE`, else ``include/`` at home."""
    configured_folder = (os.environ if environ is None else environ).get("TIDEGATE_INCLUDE")
    if configured_folder:
        # a link stays one: if git-sync points it elsewhere, a long-lived process reads that from then on
        return Path(os.path.abspath(os.path.expanduser(configured_folder)))
    return find_home_folder() / "include"


def _resolve_folder(name: str) -> Path:
    return _follow_links(Path(os.path.expanduser(name)))  # pathlib's own fails where there is no such user


def _follow_links(path: Path) -> Path:
    # pathlib raises an error for a link to itself
    return Path(os.path.realpath(path))


def find_folder_around(file: Path) -> Path:
    """Return the include folder of a pipeline's or publication's file; of a draft elsewhere, that of the commands.

    A file, or its folder, that is a link belongs to the folder that it is linked into.
    """
    for folder in (Path(os.path.abspath(file)).parent, _follow_links(file).parent):
        if folder.name in NAMED_FOLDERS or (folder.parent / "catalogs.yaml").exists():
            return folder.parent
    return find_include_folder()


def list_named_files(folder: Path) -> list[Path]:
    """List the YAML files of a folder by name; right or wrong, without hidden ones."""
    return sorted(file for file in folder.glob("*.yaml") if not file.name.startswith("."))


def list_written_files(folder: Path) -> list[Path]:
    """List them with refused files of another ending: of each name the right file comes last."""
    files = (file for file in folder.glob("*.y*ml") if not file.name.startswith("."))
    return sorted(files, key=lambda file: (file.stem, file.suffix == ".yaml", file.name))


def list_unread_files(include: Path) -> list[Path]:
    """List the YAML files in folders below those that are read."""
    files = (file for name in NAMED_FOLDERS for file in (include / name).glob("*/**/*.y*ml"))
    return sorted(file for file in files if not any(part.startswith(".") for part in file.relative_to(include).parts))


def walk_files(folder: Path) -> Iterator[Path]:
    """Yield every file below a folder, also behind links, each once; by name, hidden ones last."""
    seen_places = set[str]()
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [
            name for name in sorted(folders, key=_sort_hidden_last) if _is_new(f"{place}/{name}", seen_places)
        ]
        for name in sorted(names, key=_sort_hidden_last):
            if os.path.isfile(f"{place}/{name}") and _is_new(f"{place}/{name}", seen_places):
                yield Path(place, name)


def _sort_hidden_last(name: str) -> tuple[bool, str]:
    return name.startswith("."), name


def _is_new(path: str, seen_places: set[str]) -> bool:
    known_count = len(seen_places)
    seen_places.add(os.path.realpath(path))
    return len(seen_places) > known_count


def read_file_stamp(file: Path) -> FileStamp:
    """Return what changes with the file: its time in nanoseconds and its bytes; None if it cannot be looked at."""
    try:
        status = file.stat()
    except OSError:  # missing, or a link that leads nowhere
        return None
    return status.st_mtime_ns, status.st_size


def find_jars_folder() -> Path:
    return find_home_folder() / ".cache" / "jars" / "spark"


def find_local_stack(variable: str) -> Path | None:
    """Return the file for shells in which a running `make up` has this variable; else None."""
    file = Path(os.environ.get("TIDEGATE_RUN") or find_home_folder() / ".run") / "env"
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return file if any(line.removeprefix("export ").startswith(f"{variable}=") for line in lines) else None


def read_command_name() -> str:
    """Return what a person types for the command line: `bin/tidegate` of a checkout says how it was called."""
    return os.environ.get("TIDEGATE_COMMAND") or "tidegate"


def read_version() -> str:
    if is_checkout():
        project = tomllib.loads((find_product_folder() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return str(project["version"])
    from importlib.metadata import version  # a tenth of what `--help` may take

    return version("tidegate")


def format_path(path: Path) -> str:
    """Return `path` relative to the home folder of a checkout if it lies inside, else as it is."""
    resolved_path = _follow_links(path)
    home = find_home_folder()
    return str(resolved_path.relative_to(home)) if is_checkout() and resolved_path.is_relative_to(home) else str(path)


def read_metrics_token() -> str | None:
    """Return the scraper's secret, `TIDEGATE_METRICS_TOKEN`; None: only Airflow's users may read the metrics."""
    return os.environ.get("TIDEGATE_METRICS_TOKEN", "").strip() or None


def describe_run() -> str:
    """Return what runs this process: Airflow's DAG and run, or user, machine and process."""
    dag = os.environ.get("AIRFLOW_CTX_DAG_ID")
    run = os.environ.get("AIRFLOW_CTX_DAG_RUN_ID")
    return f"{dag} {run}" if dag and run else f"{find_user()}@{socket.gethostname()} pid={os.getpid()}"


def find_user() -> str:
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number that has no name
        return f"uid {os.getuid()}"
