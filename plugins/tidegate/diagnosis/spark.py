"""What facts about a Spark server, or about an installation of spark-submit, mean for the jobs that run there."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.diagnosis.finding import Finding, make_error, make_ok, make_warning
from tidegate.schema.avro_limits import AVRO_LIMITS, JAVA_OPTIONS, has_limits

JAR_PATTERN = re.compile(r"(?P<name>[A-Za-z][\w.-]*?)(_(?P<scala>\d+\.\d+))?-(?P<version>\d[^-]*(-[A-Za-z]\w*)?)\.jar")
RUNTIME_PATTERN = re.compile(r"^iceberg-spark-runtime-(?P<spark>\d+\.\d+)$")
KAFKA_SOURCE = "spark-sql-kafka-0-10"
AVRO_SOURCE = "spark-avro"
RUNTIME_PREFIX = "iceberg-spark-runtime"
EXTENSION = "IcebergSparkSessionExtensions"
JARS_ADVICE = "fetch the jars with `tidegate jars`, put them, no others of these, into Spark's jars/, and restart it"
MIN_DRIVER_MEGABYTES = 1024
MAX_SKEW_SECONDS = 5.0
# Settings that the product's statements rely on: a file that says otherwise would change what is written.
FIXED_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.variant.allowDuplicateKeys": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variable.substitute": "false",
}
UNITS = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}


@dataclass(frozen=True)
class Jar:
    """A jar by its file's name: ``spark-sql-kafka-0-10_2.13-4.1.1.jar``."""

    name: str
    scala: str
    version: str
    file: str


@dataclass(frozen=True)
class SparkFacts:
    """What a server tells of itself. `jars` are file names.

    `skew_seconds` is its clock against ours.
    """

    version: str
    client_version: str
    settings: Mapping[str, str]
    jars: Sequence[str] = ()
    has_kafka_source: bool = True
    iceberg_version: str = ""
    skew_seconds: float | None = None
    event_log_problem: str = ""


def parse_jar(file: str) -> Jar | None:
    """The parts of a jar's name; None for a file that is no jar with a version."""
    match = JAR_PATTERN.fullmatch(file)
    return match and Jar(match["name"], match["scala"] or "", match["version"], file)


def judge_conf(place: str, conf: Mapping[str, str]) -> Iterator[Finding]:
    """Settings of a file that would change what the product's statements mean."""
    for name, value in conf.items():
        if name in FIXED_SETTINGS and value.casefold() != FIXED_SETTINGS[name].casefold():
            yield make_error(
                "spark.settings",
                f"{place}: spark.conf has {name}={value}, and the product's statements rely on {FIXED_SETTINGS[name]}",
                "remove it from spark.conf",
            )


def judge_server(place: str, facts: SparkFacts, uses_avro: bool) -> Iterator[Finding]:
    """Everything that a Connect server may lack."""
    yield from judge_version(place, facts.version, facts.client_version)
    yield from judge_jars(place, facts.version, [jar for jar in map(parse_jar, facts.jars) if jar])
    if not facts.iceberg_version:
        yield make_error("spark.jars", f"{place}: Spark has no class of Iceberg's runtime", JARS_ADVICE)
    if not facts.has_kafka_source:
        yield make_error("spark.jars", f"{place}: Spark has no data source format=kafka", JARS_ADVICE)
    yield from judge_extensions(place, facts.settings.get("spark.sql.extensions", ""))
    if facts.event_log_problem:
        cause, _, advice = facts.event_log_problem.partition("; ")
        yield make_error("spark.settings", cause, advice)
    yield from judge_limits(place, facts.settings, uses_avro)
    yield from _judge_skew(place, facts.skew_seconds)


def judge_catalog(place: str, catalog: str, problem: str) -> Finding:
    """What Spark says of a catalog, `problem` empty where it reads it."""
    if not problem:
        return make_ok("spark.catalogs", f"{place} catalog={catalog}: Spark reads it")
    return make_error(
        "spark.catalogs",
        f"{place}: Spark cannot read catalog={catalog}: {problem}",
        "check that Spark's machines reach the catalog and its files, and that its driver is among the jars",
    )


def judge_version(place: str, version: str, client_version: str) -> Iterator[Finding]:
    """Server and client must be of one minor version: Connect's protocol and the job code change with it."""
    minors = [".".join(version_text.split(".")[:2]) for version_text in (version, client_version)]
    if minors[0] != minors[1]:
        yield make_error(
            "spark.version",
            f"{place}: Spark version={version}, and this environment has pyspark={client_version}",
            f"run Spark {client_version} there",
        )
    elif version != client_version:
        yield make_warning(
            "spark.version",
            f"{place}: Spark version={version}, and this environment has pyspark={client_version}",
            f"run Spark {client_version} there: only that pair was tested",
        )
    else:
        yield make_ok("spark.version", f"{place} version={version}")


def judge_jars(place: str, version: str, jars: Sequence[Jar]) -> Iterator[Finding]:
    """Jars that are there twice, or of another Spark; those that are missing the server tells by its classes."""
    good_count = 0
    for name in (RUNTIME_PREFIX, KAFKA_SOURCE, AVRO_SOURCE):
        named_jars = [
            jar for jar in jars if jar.name == name or (name == RUNTIME_PREFIX and RUNTIME_PATTERN.match(jar.name))
        ]
        fault = _find_jar_fault(place, name, named_jars, version)
        if fault is not None:
            yield fault
        elif named_jars:
            good_count += 1
    scalas = {jar.scala: jar.file for jar in jars if jar.scala and jar.name.startswith(("spark-", "iceberg-"))}
    if len(scalas) > 1:
        cause = f"{place}: jars of two Scala versions: jars={', '.join(sorted(scalas.values()))}"
        yield make_error("spark.jars", cause, JARS_ADVICE)
    elif good_count:
        yield make_ok("spark.jars", f"{place} jars={good_count}: of Spark's version, each once")


def _find_jar_fault(place: str, name: str, named_jars: Sequence[Jar], version: str) -> Finding | None:
    """What is wrong with the jars of one library: two of them, or one for another version than the server's."""
    files = sorted({jar.file for jar in named_jars})
    if len(files) > 1:
        return make_error("spark.jars", f"{place}: Spark has {name} twice: jars={', '.join(files)}", JARS_ADVICE)
    for jar in named_jars[:1]:
        match = RUNTIME_PATTERN.match(jar.name)
        made_for = match["spark"] if match else jar.version
        spark_version = ".".join(version.split(".")[:2]) if name == RUNTIME_PREFIX else version
        if made_for != spark_version:
            cause = f"{place}: jar={jar.file} is made for Spark {made_for}, and the server's version={version}"
            return make_error("spark.jars", cause, JARS_ADVICE)
    return None


def judge_extensions(place: str, extensions: str) -> Iterator[Finding]:
    """Without Iceberg's extensions a merge into a branch, and maintenance, are not understood."""
    if EXTENSION not in extensions:
        yield make_error(
            "spark.extensions",
            f"{place}: spark.sql.extensions={extensions or 'none'} lacks Iceberg's",
            f"start Spark with spark.sql.extensions=org.apache.iceberg.spark.extensions.{EXTENSION}",
        )
    else:
        yield make_ok("spark.extensions", f"{place}: spark.sql.extensions has Iceberg's")


def judge_limits(place: str, settings: Mapping[str, str], uses_avro: bool) -> Iterator[Finding]:
    """Settings of the server's start that the documents ask for."""
    zone = settings.get("spark.sql.session.timeZone", "")
    if zone and zone not in ("UTC", "Etc/UTC", "Z"):
        yield make_warning(
            "spark.limits",
            f"{place}: spark.sql.session.timeZone={zone}; jobs set UTC, other users of this server see other times",
            "start Spark with spark.sql.session.timeZone=UTC",
        )
    megabytes = parse_megabytes(settings.get("spark.driver.memory", "1g"))
    if megabytes is not None and megabytes < MIN_DRIVER_MEGABYTES:
        yield make_warning(
            "spark.limits",
            f"{place}: spark.driver.memory={settings['spark.driver.memory']} is little for a server of many sessions",
            "start Spark with spark.driver.memory=2g or more",
        )
    limits = " ".join(f"-D{name}={value}" for name, value in AVRO_LIMITS.items())
    option = JAVA_OPTIONS[0 if settings.get("spark.master", "").startswith("local") else 1]
    if uses_avro and not has_limits(settings.get(option, "")):
        yield make_warning(
            "spark.limits",
            f"{place}: {option} has no limits for Avro's decoder: each Avro record is checked on Python workers first, "
            "which costs several times the CPU",
            f"add {limits} to {' and '.join(JAVA_OPTIONS)}",
        )


def _judge_skew(place: str, skew: float | None) -> Iterator[Finding]:
    if skew is None:
        return
    if abs(skew) > MAX_SKEW_SECONDS:
        yield make_warning(
            "spark.clock",
            f"{place}: Spark's clock differs from this machine's by skew_seconds={skew:.0f}",
            "set the clocks by NTP; tables expire and are kept small by these times",
        )
    else:
        yield make_ok("spark.clock", f"{place} skew_seconds={abs(skew):.1f}")


def parse_megabytes(text: str) -> float | None:
    """Spark's text for an amount of memory; None for one that is none."""
    match = re.fullmatch(r"(\d+)\s*([kmgt])b?", text.strip().casefold())
    return float(match[1]) * UNITS[match[2]] if match else None
