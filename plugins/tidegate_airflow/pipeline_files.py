"""Which files a process that reads the DAG files needs: a task's process its own alone, everybody else all."""

from airflow.sdk import get_parsing_context
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.errors import ConfigurationError
from tidegate.settings import find_include_folder, list_named_files
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.dag_ids import find_fleet_of_dag, find_pipeline, find_publication


def load_needed_pipelines() -> list[tuple[str, Pipeline]]:
    """Load the pipelines whose file is valid; in the process of a task only those that it needs."""
    include = find_include_folder()
    names = list_pipeline_names()
    own_name = find_pipeline(get_parsing_context().dag_id or "", names)
    if own_name is None and find_needed_publication() is not None:
        return []
    return [
        (name, pipeline)
        for name, pipeline in load_all_pipelines(include, own_name)
        if not isinstance(pipeline, ConfigurationError)
    ]


def find_needed_publication() -> str | None:
    """Return the publication whose task this process runs; None in every other process."""
    names = [path.stem for path in list_named_files(find_include_folder() / "publications")]
    return find_publication(get_parsing_context().dag_id or "", names)


def find_needed_fleet() -> str | None:
    """Return the fleet whose task this process runs; None in every other process."""
    return find_fleet_of_dag(get_parsing_context().dag_id or "", list_pipeline_names())


def list_pipeline_names() -> set[str]:
    return {path.stem for path in list_named_files(find_include_folder() / "pipelines")}
