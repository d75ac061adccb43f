"""What facts about an Airflow installation mean for the DAGs of the pipelines."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tidegate.connections import name_variable
from tidegate.diagnosis.finding import Finding, make_error, make_ok, make_warning

MIN_VERSION = (3, 3)  # tasks use its stores of state and its metrics
MIN_VERSION_TEXT = ".".join(map(str, MIN_VERSION))
UNLIMITED_SLOTS = -1  # of a pool, as Airflow has it
REQUIRED_SERVICES = {
    "SchedulerJob": "airflow scheduler",
    "DagProcessorJob": "airflow dag-processor",
    "TriggererJob": "airflow triggerer",
}


@dataclass(frozen=True)
class AirflowNeeds:
    """What the files need of Airflow: connections with those who name them, catalogs, and whether a trigger waits."""

    connections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    catalogs: tuple[str, ...] = ()
    triggered: tuple[str, ...] = ()  # pipelines with a records_threshold


@dataclass(frozen=True)
class AirflowFacts:
    """What Airflow tells of itself. `database_problem` is empty where its database answers.

    `pools` has slots by name; `services` the seconds since the last heartbeat of the newest job of each type, None for
    a type without one; `import_errors` the first line of the error of each DAG file.
    """

    version: str = ""
    home: str = ""
    dags_folder: str = ""
    plugins_folder: str = ""
    has_plugin: bool = False
    plugin_error: str = ""
    has_dags: bool = False
    parallelism: int = 0
    database_problem: str = ""
    known_connections: Sequence[str] = ()
    pools: Mapping[str, int] = field(default_factory=dict)
    services: Mapping[str, float | None] = field(default_factory=dict)
    threshold_seconds: float = 30.0
    import_errors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "AirflowFacts":
        """Facts as they come from Airflow's own process."""
        return cls(**data)


def is_too_old(version: str) -> bool:
    """Whether an Airflow of this version cannot run the DAGs."""
    return tuple(map(int, version.split(".")[:2])) < MIN_VERSION


def judge_airflow(needs: AirflowNeeds, facts: AirflowFacts) -> Iterator[Finding]:
    """Everything that Airflow may lack."""
    place = f"AIRFLOW_HOME={facts.home}"
    if is_too_old(facts.version):
        advice = f"install Airflow {MIN_VERSION_TEXT} or newer"
        yield make_error("airflow.environment", f"airflow={facts.version} is too old", advice)
        return
    yield from _judge_folders(place, facts)
    if facts.database_problem:
        cause = f"{place}: Airflow's database does not answer: {facts.database_problem}"
        yield make_error("airflow.environment", cause, "start the database, or run `airflow db migrate`")
        return
    yield make_ok("airflow.environment", f"{place} airflow={facts.version}: its database answers")
    yield from _judge_connections(needs, facts)
    yield from _judge_pools(needs, facts)
    yield from _judge_services(needs, facts)


def _judge_folders(place: str, facts: AirflowFacts) -> Iterator[Finding]:
    if facts.plugin_error:
        cause = f"{place}: Airflow cannot load Tidegate's plugin: {facts.plugin_error}"
        yield make_error("airflow.plugin", cause, "correct it; without the plugin no pools are made")
    elif not facts.has_plugin:
        yield make_error(
            "airflow.plugin",
            f"{place}: plugins_folder={facts.plugins_folder} has no plugin of Tidegate",
            "set [core] plugins_folder to the product's plugins/, or install the package",
        )
    if not facts.has_dags:
        yield make_error(
            "airflow.plugin",
            f"{place}: dags_folder={facts.dags_folder} has no DAG file of Tidegate",
            "set [core] dags_folder to the product's dags/, or copy its files there",
        )
    for file, reason in facts.import_errors.items():
        cause = f"Airflow cannot read file={file}: {reason}"
        yield make_error("airflow.plugin", cause, "correct the file; its DAGs do not run")


def _judge_connections(needs: AirflowNeeds, facts: AirflowFacts) -> Iterator[Finding]:
    missing = {name: users for name, users in needs.connections.items() if name not in facts.known_connections}
    for name, users in missing.items():
        advice = f"create it: airflow connections add {name} …, or {name_variable(name)} for every service"
        yield replace(
            make_error("airflow.connections", f"Airflow does not know connection={name}", advice), used_by=users
        )
    if needs.connections and not missing:
        yield make_ok("airflow.connections", f"connections={len(needs.connections)}: Airflow knows them")


def _judge_pools(needs: AirflowNeeds, facts: AirflowFacts) -> Iterator[Finding]:
    names = [f"tidegate_{catalog}" for catalog in needs.catalogs]
    for name in names:
        slots = facts.pools.get(name, "none")
        if slots in (0, "none"):
            cause = f"pool={name} slots={slots}: its flushes would wait for ever"
            yield make_error("airflow.pools", cause, "restart Airflow's scheduler, which makes it, or give it slots")
    limits = [facts.pools.get(name, 0) for name in names]
    total = sum(limits)
    if UNLIMITED_SLOTS in limits:
        yield make_ok("airflow.pools", f"pools={len(names)} slots=unlimited parallelism={facts.parallelism}")
    elif facts.parallelism and facts.parallelism < total:
        yield make_warning(
            "airflow.pools",
            f"[core] parallelism={facts.parallelism} is less than the slots={total} of the catalogs' pools",
            "raise parallelism, or lower the pools: the slots beyond it are never used",
        )
    elif total:
        yield make_ok("airflow.pools", f"pools={len(names)} slots={total} parallelism={facts.parallelism}")


def _judge_services(needs: AirflowNeeds, facts: AirflowFacts) -> Iterator[Finding]:
    for job, command in REQUIRED_SERVICES.items():
        age = facts.services.get(job)
        if age is not None and age <= facts.threshold_seconds:
            continue
        last = "never" if age is None else f"{age:.0f} s ago"
        if job == "TriggererJob":
            users = needs.triggered
            consequence = "records_threshold starts no flush, and no task waits outside of a slot"
        else:
            users = tuple[str, ...]()
            consequence = "no DAG runs"
        make = make_error if users or job != "TriggererJob" else make_warning
        finding = make(
            "airflow.services", f"{job} gave its last sign of life={last}: {consequence}", f"start it: {command}"
        )
        yield replace(finding, used_by=users)
