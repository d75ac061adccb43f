"""Probes run side by side: a server that hangs delays nobody, and what follows from an error is not told."""

import threading
from collections.abc import Iterator

import pytest
from tidegate.diagnosis.finding import (
    MAX_AT_ONCE,
    Finding,
    Probe,
    Severity,
    make_error,
    make_ok,
    make_warning,
    run_probes,
)
from tidegate.errors import GiveUp


def probe(name: str, *finding: Finding, **words: object) -> Probe:
    return Probe(**{"name": name, "check": "kafka.reachable", "run": lambda: finding, "used_by": ["one"], **words})


def run(*probes: Probe, seconds: float = 15) -> list[Finding]:
    return run_probes({probe.name: probe for probe in probes}, seconds)


BROKER_FINDING = make_error("kafka.reachable", "brokers=b took no connection; start them")
MISSING = Finding("kafka.topics", Severity.ERROR, "topic=t does not exist", "create it", ("two",))


def test_probe_that_hangs_is_told_and_the_others_are_not_delayed() -> None:
    release = threading.Event()

    def hang() -> Iterator[Finding]:
        yield make_ok("kafka.reachable", "let in")
        release.wait(60)
        yield make_ok("kafka.topics", "too late")

    probes = [probe("Kafka", run=hang), probe("catalog=lake", make_ok("catalog.reachable", "x"))]
    findings = run(*probes, seconds=0.2)
    release.set()
    assert {finding.cause for finding in findings} == {"let in", "Kafka gave no answer within 0 s", "x"}
    late = next(finding for finding in findings if finding.severity is Severity.ERROR)
    assert (late.check, late.used_by, bool(late.advice)) == ("kafka.reachable", ("one",), True)


def test_time_that_libraries_take_is_no_servers() -> None:
    is_loaded = threading.Event()

    def load() -> list[Finding]:
        is_loaded.wait(0.5)
        return [make_ok("catalog.reachable", "let in")]

    findings = run(probe("catalog=lake", run=load), seconds=0.1)
    assert [finding.cause for finding in findings] == ["let in"]


def test_more_probes_that_hang_than_run_at_once_delay_no_other_for_ever() -> None:
    release = threading.Event()

    def hang() -> Iterator[Finding]:
        release.wait(60)
        yield make_ok("kafka.reachable", "too late")

    hanging = [probe(f"Kafka {number}", run=hang) for number in range(MAX_AT_ONCE + 1)]
    findings = run(*hanging, probe("last", make_ok("catalog.reachable", "reached")), seconds=0.1)
    release.set()
    assert len([finding for finding in findings if "gave no answer" in finding.cause]) == MAX_AT_ONCE + 1
    assert "reached" in {finding.cause for finding in findings}


@pytest.mark.parametrize(
    ("finding", "is_run"),
    [
        (BROKER_FINDING, False),
        (make_warning("kafka.reachable", "slow; wait"), True),
        (make_ok("kafka.reachable", "let in"), True),
    ],
)
def test_what_follows_from_an_error_is_not_told_also_two_steps_away(finding: Finding, is_run: bool) -> None:
    topics = probe("topics", make_ok("kafka.topics", "there"), needs=("Kafka",))
    position = probe("position", make_ok("pipeline.position", "fits"), needs=("topics", "not there"))
    causes = {finding.cause for finding in run(position, topics, probe("Kafka", finding))}
    assert ({"there", "fits"} <= causes, len(causes)) == (is_run, 3 if is_run else 1)


def test_error_that_a_probe_lets_through_is_told_with_its_way_out() -> None:
    def refuse() -> Iterator[Finding]:
        raise GiveUp("table=x format-version=3: not supported; use format 2")

    def break_down() -> Iterator[Finding]:
        yield make_ok("kafka.reachable", "let in")
        raise KeyError("nobody expects this")

    findings = run(probe("a", run=refuse, check="catalog.tables"), probe("b", run=break_down))
    by_cause = {finding.cause: finding for finding in findings}
    format_finding = by_cause["table=x format-version=3: not supported"]
    assert (format_finding.check, format_finding.advice, format_finding.used_by) == (
        "catalog.tables",
        "use format 2",
        ("one",),
    )
    [unexpected] = [finding for finding in findings if "KeyError" in finding.cause]
    assert "nobody expects this" in unexpected.cause


def test_finding_keeps_its_own_pipelines_and_others_concern_all_of_the_probe() -> None:
    findings = run(probe("Kafka", BROKER_FINDING, MISSING, used_by=["one", "two", "one"]))
    assert [finding.used_by for finding in findings] == [("one", "two"), ("two",)]
