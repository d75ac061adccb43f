"""Which pipelines a process that reads the DAG files needs: a task's process its own alone, everybody else all."""

from airflow.sdk import get_parsing_context
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.errors import ConfigurationError
from tidegate.settings import find_include_folder
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.dag_ids import find_pipeline


def load_needed_pipelines() -> list[tuple[str, Pipeline]]:
    """The pipelines whose file is right, by name. With hundreds, reading the others would cost each task a second."""
    include = find_include_folder()
    names = {path.stem for path in (include / "pipelines").glob("*.yaml")}
    own = find_pipeline(get_parsing_context().dag_id or "", names)
    return [
        (name, pipeline)
        for name, pipeline in load_all_pipelines(include, own)
        if not isinstance(pipeline, ConfigurationError)
    ]
