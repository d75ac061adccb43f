"""The DAGs of all pipeline and publication files, for the few lines that stand in Airflow's dags folder."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from airflow.sdk import DAG, get_parsing_context
from airflow.sdk.exceptions import AirflowException
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.errors import ConfigurationError
from tidegate.fleet.timing import list_seldom_flushed
from tidegate.settings import find_include_folder, list_named_files
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.dag_ids import HEARTBEATS_DAG_ID, find_fleet_of_dag, find_pipeline, find_publication
from tidegate_airflow.doctor_facts import MIN_VERSION_TEXT, is_too_old

Dags = dict[str, Any]


def check_airflow_version() -> None:
    """Raise `AirflowException` if Airflow is too old: each task would fail after its work."""
    import airflow

    if is_too_old(airflow.__version__):
        raise AirflowException(
            f"airflow={airflow.__version__}: Tidegate needs Airflow {MIN_VERSION_TEXT} or newer; upgrade it, run "
            "`airflow db migrate`, and start its services again"
        )


def build_all_dags() -> Dags:
    """Build every DAG by its id; for the process of one task no more than it takes to find its own."""
    dags = Dags()
    needed = get_parsing_context().dag_id
    for build in (build_pipeline_dags, build_maintenance_dags, build_publication_dags):
        dags |= build()
        if needed in dags:
            break
    return dags


def build_pipeline_dags() -> Dags:
    check_airflow_version()
    needed = find_fleet_of_dag(get_parsing_context().dag_id or "", _list_names("pipelines"))
    if needed is not None:  # its task's process needs no file to find its DAG
        return build_fleet_dags({needed: []})
    dags = Dags()
    fleets = dict[str, list[Pipeline]]()
    for pipeline in load_needed_pipelines():
        dags |= build_own_dags(pipeline)
        if pipeline.fleet is not None:
            fleets.setdefault(pipeline.fleet, []).append(pipeline)
    is_own_process = get_parsing_context().dag_id is not None  # the process of a task of one pipeline: no whole fleet
    return dags if is_own_process else dags | build_fleet_dags(fleets)


def load_needed_pipelines() -> list[Pipeline]:
    """Load the pipelines whose file is valid; in the process of a task only those that it needs."""
    own_name = find_pipeline(get_parsing_context().dag_id or "", _list_names("pipelines"))
    if own_name is None and find_needed_publication() is not None:
        return []
    load_results = load_all_pipelines(find_include_folder(), own_name)
    return [pipeline for _, pipeline in load_results if not isinstance(pipeline, ConfigurationError)]


def find_needed_publication() -> str | None:
    """Return the publication whose task this process runs; None in every other process."""
    return find_publication(get_parsing_context().dag_id or "", _list_names("publications"))


def _list_names(kind: str) -> list[str]:
    return [path.stem for path in list_named_files(find_include_folder() / kind)]


def build_own_dags(pipeline: Pipeline) -> Dags:
    from tidegate_airflow.dags.actions import build_actions_dag, build_replay_dag
    from tidegate_airflow.dags.backfill import build_backfill_dag
    from tidegate_airflow.dags.flush import build_flush_dag, build_stage_dag

    dags = [build_backfill_dag(pipeline), build_actions_dag(pipeline)]
    dags += [build_flush_dag(pipeline)] if pipeline.fleet is None else []
    dags += [build_stage_dag(pipeline)] if pipeline.stage.has_clock else []
    dags += [build_replay_dag(pipeline)] if pipeline.template is None else []  # skipped records are dead letters too
    return _name_dags(dags)


def build_fleet_dags(fleets: Mapping[str, Sequence[Pipeline]]) -> Dags:
    from tidegate_airflow.dags.flush import build_fleet_dag

    return _name_dags(build_fleet_dag(fleet, members) for fleet, members in fleets.items())


def _name_dags(dags: Iterable[DAG]) -> Dags:
    return {dag.dag_id: dag for dag in dags}


def build_maintenance_dags() -> Dags:
    """Build the DAGs that look after the tables of each valid pipeline file, the janitor's, and that of heartbeats."""
    check_airflow_version()
    from tidegate_airflow.dags.heartbeats import build_heartbeats_dag
    from tidegate_airflow.dags.maintenance import build_janitor_dag, build_maintenance_dag, build_verify_dag

    needed = get_parsing_context().dag_id
    if needed == HEARTBEATS_DAG_ID:  # its task's process needs no file to find its DAG
        return _name_dags([build_heartbeats_dag({})])
    pipelines = load_needed_pipelines()
    dags = [build_janitor_dag(), *map(build_maintenance_dag, pipelines)]
    dags += [build_verify_dag(pipeline) for pipeline in pipelines if pipeline.verify.interval_seconds > 0]
    if needed is None:  # a task's process knows its own pipeline alone
        seldom = list_seldom_flushed({pipeline.name: pipeline for pipeline in pipelines})
        dags += [build_heartbeats_dag(seldom)] if seldom else []
    return _name_dags(dags)


def build_publication_dags() -> Dags:
    check_airflow_version()
    from tidegate.config.publication_file import load_publications
    from tidegate.spec.publication import Publication

    from tidegate_airflow.dags.publication import build_publication_dag

    loaded_files = load_publications(find_include_folder(), find_needed_publication())

    return _name_dags(build_publication_dag(loaded) for _, loaded in loaded_files if isinstance(loaded, Publication))


def raise_refused_files() -> None:
    """Raise one error with all that is wrong in the files, which Airflow shows as the caller's import error."""
    from tidegate.config.publication_file import load_publications

    load_results = [*load_all_pipelines(find_include_folder()), *load_publications(find_include_folder())]
    refusals = [load_result for _, load_result in load_results if isinstance(load_result, ConfigurationError)]
    if refusals:
        raise AirflowException("\n".join(str(problem) for problem in refusals))
