"""The files of an include folder: read as `validate` reads them, and looked through for secrets."""

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from tidegate.config.catalogs_file import list_catalog_problems, read_catalogs
from tidegate.config.pipeline_file import list_unread_warnings, load_all_pipelines
from tidegate.config.publication_file import load_publications
from tidegate.connections import name_variable, point_to_local_stack
from tidegate.diagnosis.finding import Finding, from_error, make_error, make_ok, make_warning
from tidegate.errors import ConfigurationError
from tidegate.model.offsets import format_names
from tidegate.redaction import has_secret, is_secret_name
from tidegate.settings import NAMED_FOLDERS, format_path, walk_files
from tidegate.spec.catalog import Catalog
from tidegate.spec.source import Source
from tidegate.wiring.diagnosis.subjects import Subjects

PYTHONS = ((3, 11), (3, 13))
MAX_FILE_BYTES = 1 << 20
SETTINGS_SUFFIXES = {".yaml", ".yml", ".json", ".env", ".properties", ".cfg", ".conf", ".ini", ".toml"}
COMMENT_PATTERN = re.compile(r"(^|\s)#.*")
# what stands in an example, or where a value is filled in later
PLACEHOLDER_PATTERN = re.compile(
    r"""(?<=[:=])["']?(password|secret|token|<[^>]*>|\*+|\.{3}|…|[$]?\{[^}]*\}|[$]\w+|[$]\([^)]*\))(?=[@\s"'&;,]|$)""",
    re.IGNORECASE,
)
SETTING_PATTERN = re.compile(
    r"""(^|[\s{,;])["']?(?P<name>[\w.-]+)["']?\s*[:=]\s*(?P<value>"[^"]*"|'[^']*'|[^\s,;}]+)"""
)
# a part that has parts itself, a switch or a number, a file, or the name of the place where the secret is
NO_SECRET_PATTERN = re.compile(
    r"""["']?([{\[|>&*/]|[$]\{|[$]\w|<|(true|false|null|none|\d+)["']?$|["']?$)""", re.IGNORECASE
)
SECRET_PROBLEM = "a secret in a file"


def check_folder(include: Path) -> list[Finding]:
    """Python, and the include folder: without it nothing else can be looked at."""
    version, (oldest, newest) = sys.version_info[:2], PYTHONS
    if not oldest <= version <= newest:
        cause = f"python={'.'.join(map(str, version))} is not one that the product runs with"
        return [make_error("files.environment", cause, "use Python 3.11, 3.12 or 3.13")]
    if not include.is_dir():
        cause = f"include={include}: no such folder"
        return [make_error("files.environment", cause, "set TIDEGATE_INCLUDE to one with catalogs.yaml and pipelines/")]
    return [make_ok("files.environment", f"include={include} python={'.'.join(map(str, version))}")]


def read_files(subjects: Subjects, names: tuple[str, ...]) -> list[Finding]:
    """Fill `subjects` with what can be read, and tell what cannot. ConfigurationError for a name that no file has."""
    findings = [_to_finding("files.catalogs", problem) for problem in list_catalog_problems(subjects.include)]
    try:
        read = read_catalogs(subjects.include)
    except ConfigurationError:
        read = {}
    subjects.catalogs = {name: catalog for name, catalog in read.items() if isinstance(catalog, Catalog)}
    pipelines = load_all_pipelines(subjects.include)
    publications = load_publications(subjects.include)
    known = [name for name, _ in (*pipelines, *publications)]
    if unknown := [name for name in names if name not in known]:
        raise ConfigurationError(
            f"name={unknown[0]}: no such pipeline or publication; there are: {format_names(known) or 'none'}"
        )
    for name, pipeline in pipelines:
        if names and name not in names:
            continue
        if isinstance(pipeline, ConfigurationError):
            findings += [_to_finding("files.pipelines", problem) for problem in pipeline.problems]
            continue
        subjects.pipelines[name] = pipeline
        findings += [make_warning("files.pipelines", *_split(text)) for text in pipeline.warnings]
    for name, publication in publications:
        if names and name not in names:
            continue
        if isinstance(publication, ConfigurationError):
            findings += [_to_finding("files.publications", problem) for problem in publication.problems]
        else:
            subjects.publications[name] = publication
    unread_warnings = () if names else list_unread_warnings(subjects.include)
    findings += [make_warning("files.pipelines", *_split(text)) for text in unread_warnings]
    return _drop_repeats(findings) + _summarize(subjects)


def _summarize(subjects: Subjects) -> list[Finding]:
    counts = {
        "files.catalogs": ("catalogs", len(subjects.catalogs)),
        "files.pipelines": ("pipelines", len(subjects.pipelines)),
        "files.publications": ("publications", len(subjects.publications)),
    }
    summary = [make_ok(check, f"{word}={number} can be used") for check, (word, number) in counts.items() if number]
    if not subjects.pipelines and not subjects.publications:
        cause = f"include={subjects.include}: no pipeline or publication can be used"
        summary.append(make_warning("files.pipelines", cause, "write one, see docs/pipeline-file.md"))
    return summary


def _drop_repeats(findings: list[Finding]) -> list[Finding]:
    """Each pipeline file repeats, or quotes, what is wrong with the catalogs: the first one is told."""
    distinct_findings = list[Finding]()
    for finding in findings:
        if not any(first.cause in finding.cause for first in distinct_findings):
            distinct_findings.append(finding)
    return distinct_findings


def _to_finding(check: str, problem: str) -> Finding:
    finding = from_error("files.secrets" if SECRET_PROBLEM in problem else check, problem)
    cause, advice = _split(problem)
    return replace(finding, cause=cause, advice=advice)


def _split(problem: str) -> tuple[str, str]:
    cause, _, advice = " ".join(problem.split()).partition("; ")
    return cause, advice


def check_consumer_groups(subjects: Subjects) -> Iterator[Finding]:
    """Two pipelines that commit the same topics to one consumer group: a table that begins at its offsets may begin
    at those of the other pipeline, behind records that it has not read."""
    for (name, pipeline), (other_name, other) in combinations(sorted(subjects.pipelines.items()), 2):
        source = pipeline.source
        other_source = other.source
        if source.group != other_source.group or source.kafka != other_source.kafka:
            continue
        if topics := _list_common_topics(source, other_source):
            cause = (
                f"pipelines={name}, {other_name}: both commit topics={format_names(topics)} to group={source.group}, "
                "and each overwrites the other's offsets"
            )
            finding = make_warning("files.pipelines", cause, "give each pipeline a source.group of its own")
            yield replace(finding, used_by=(name, other_name))


def _list_common_topics(source: Source, other: Source) -> list[str]:
    """Topics, or a pattern, that both read; topics that two different patterns match are not known here."""
    common = set(source.topics) & set(other.topics)
    for names, pattern in ((source.topics, other.topic_pattern), (other.topics, source.topic_pattern)):
        common |= {topic for topic in names if pattern is not None and re.fullmatch(pattern, topic)}
    same_pattern = source.topic_pattern is not None and source.topic_pattern == other.topic_pattern
    return sorted(common | ({str(source.topic_pattern)} if same_pattern else set()))


def scan_for_secrets(include: Path, reported_findings: list[Finding]) -> Iterator[Finding]:
    """Lines of files that hold a secret, comments left out; those in `reported_findings` are not repeated."""
    known = [finding.cause for finding in reported_findings if finding.check == "files.secrets"]
    for path in walk_files(include):
        place = format_path(path)
        has_settings = _holds_settings(include, path)
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                continue
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            cause = f"{place}: file={path.name} cannot be looked through for secrets: {error.strerror}"
            yield make_warning("files.secrets", cause, "give the user the right to read it, or move it elsewhere")
            continue
        for number, line in enumerate(lines, 1):
            text = PLACEHOLDER_PATTERN.sub("", COMMENT_PATTERN.sub("", line))
            is_secret = has_secret(text) or (has_settings and _is_secret_setting(text))
            if is_secret and not any(cause.startswith(f"{place}:{number}:") for cause in known):
                yield make_error(
                    "files.secrets",
                    f"{place}:{number}: file={path.name} holds what looks like a password or a private key",
                    "put it into an Airflow connection, and change it: it may be in the history of the files",
                )


def _holds_settings(include: Path, path: Path) -> bool:
    """Whether lines of the file are settings, whose names tell of secrets. Files that the product reads are not among
    them: `validate` has looked at each value where it stands.
    """
    is_read = path.parent == include or path.parent in [include / folder for folder in NAMED_FOLDERS]
    is_settings = path.suffix in SETTINGS_SUFFIXES or path.name.startswith(".env")
    return is_settings and not (is_read and path.suffix == ".yaml")


def _is_secret_setting(line: str) -> bool:
    """Whether the line gives a setting with a secret's name a value, and not the place where that is."""
    return any(
        is_secret_name(match["name"]) and not NO_SECRET_PATTERN.match(match["value"])
        for match in SETTING_PATTERN.finditer(line)
    )


def check_connections(subjects: Subjects, has_airflow: bool) -> Iterator[Finding]:
    """Connections that files name and that are not here. Where Airflow is here, it may have them."""
    names = subjects.list_connections()
    missing = 0
    for name, users in names.items():
        try:
            connection = subjects.resolve(name)
        except ConfigurationError as error:
            missing += 1
            yield replace(from_error("files.connections", error), used_by=users)
            continue
        if connection is not None:
            continue
        missing += 1
        if has_airflow:
            cause = f"connection={name} is not in this environment: what needs it was left out"
            advice = f"set {name_variable(name)} for the doctor, e.g. from `airflow connections get {name}`"
            yield replace(make_warning("files.connections", cause, advice), used_by=users)
        else:
            variable = name_variable(name)
            advice = f"create it in Airflow, or set {variable} outside of Airflow{point_to_local_stack(variable)}"
            yield replace(make_error("files.connections", f"connection={name}: not found", advice), used_by=users)
    if names and not missing:
        yield make_ok("files.connections", f"connections={len(names)}: each is defined")
