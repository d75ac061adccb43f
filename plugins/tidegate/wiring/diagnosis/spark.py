"""A probe for each place where jobs run: a Connect server, or an installation of spark-submit."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from tidegate.adapters.spark.probe import check_connect, check_spark_catalogs, check_submit, import_server_facts
from tidegate.adapters.spark.remote_address import resolve_spark_remote
from tidegate.config.destinations.registry import get_destination
from tidegate.diagnosis.finding import Finding, from_error
from tidegate.diagnosis.probes import Probe
from tidegate.diagnosis.spark import judge_conf
from tidegate.errors import ConfigurationError
from tidegate.redaction import redact_in_session
from tidegate.spec.runtime import SparkMode, SparkTarget
from tidegate.wiring.diagnosis.servers import name_catalog_probe
from tidegate.wiring.diagnosis.subjects import Subjects, uses_avro
from tidegate.wiring.pipeline import list_local_jars, resolve_spark_master

BLOCKING_SPARK = ("spark.settings", "spark.reachable", "spark.version", "spark.jars", "spark.extensions")


def check_spark_conf(subjects: Subjects) -> Iterator[Finding]:
    """Settings of each file that would change what the product's statements mean."""
    for name, target in subjects.list_targets():
        yield from (replace(finding, used_by=(name,)) for finding in judge_conf(f"file={name}.yaml", target.conf))


def list_spark_probes(subjects: Subjects) -> list[Probe]:
    """For each Connect server two probes, the second one for its catalogs; for spark-submit one."""
    probes = []
    for key, (target, names) in subjects.list_spark().items():
        name = f"Spark {key}"
        is_connect = target.mode is SparkMode.CONNECT
        check = _check_server if is_connect else _check_installation
        probes.append(
            Probe(
                name=name,
                check="spark.reachable",
                run=partial(check, subjects, target, names),
                used_by=names,
                blocks=BLOCKING_SPARK,
            )
        )
        probes += [
            Probe(
                name=f"{name} catalog={catalog}",
                check="spark.catalogs",
                run=partial(_check_catalog, subjects, target, catalog),
                used_by=names,
                needs=(name, name_catalog_probe(catalog)),
            )
            for catalog in (_list_catalogs(subjects, names) if is_connect else ())
        ]
    return probes


def _list_catalogs(subjects: Subjects, names: tuple[str, ...]) -> list[str]:
    """Catalogs that Spark itself reads and writes for these files."""
    catalog_names = []
    for use, users in subjects.list_catalogs().items():
        if not {*users} & {*names} or (use.connection and not subjects.is_defined(use.connection)):
            continue
        catalog_names += [use.name] if _build_conf(subjects, use.name) else []
    return catalog_names


def _build_conf(subjects: Subjects, catalog: str) -> dict[str, str]:
    catalog_spec = subjects.catalogs[catalog]
    conf = get_destination(catalog_spec).build_spark_conf(catalog_spec, subjects.resolve)
    subjects.mask.add_settings(conf)
    return conf


def _check_server(subjects: Subjects, target: SparkTarget, names: tuple[str, ...]) -> Iterator[Finding]:
    import_server_facts()
    return _ask_server(subjects, target, names)


def _ask_server(subjects: Subjects, target: SparkTarget, names: tuple[str, ...]) -> Iterator[Finding]:
    try:
        remote = resolve_spark_remote(target, subjects.resolve)
    except ConfigurationError as error:
        yield from_error("spark.settings", error)
        return
    conf: dict[str, str] = {}
    for catalog in _list_catalogs(subjects, names):
        conf |= _build_conf(subjects, catalog)
    is_avro = any(uses_avro(subjects.pipelines[name]) for name in names if name in subjects.pipelines)
    yield from check_connect(remote, subjects.describe_spark(target), conf, is_avro)


def _check_catalog(subjects: Subjects, target: SparkTarget, catalog: str) -> Iterator[Finding]:
    remote = resolve_spark_remote(target, subjects.resolve)
    conf = redact_in_session(_build_conf(subjects, catalog))
    return check_spark_catalogs(remote, subjects.describe_spark(target), conf, [catalog])


def _check_installation(subjects: Subjects, target: SparkTarget, _: tuple[str, ...]) -> Iterator[Finding]:
    if target.master is None and not subjects.is_defined(target.connection):
        return  # files.connections reports it
    try:
        master = target.master or resolve_spark_master(target.connection, subjects.resolve)
    except ConfigurationError as error:
        yield from_error("spark.settings", error)
        return
    yield from check_submit(master, list_local_jars(), target.conf)
