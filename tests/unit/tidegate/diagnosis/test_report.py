"""The report: what to fix first stands first, nothing twice, and no secret."""

from dataclasses import replace
from pathlib import Path

from tidegate.diagnosis.finding import (
    CHECKS,
    DEFAULT_ADVICE,
    build_report,
    format_findings,
    make_error,
    make_ok,
    make_warning,
    order_findings,
)
from tidegate.redaction import SecretMask

ORDER = [
    make_error("files.pipelines", "a; x"),
    make_error("kafka.topics", "b; x"),
    make_error("spark.jars", "c; x"),
    make_warning("files.connections", "d; x"),
    make_ok("files.environment", "e"),
]


def test_errors_stand_first_in_the_order_in_which_they_are_fixed() -> None:
    assert order_findings(reversed(ORDER), SecretMask()) == ORDER


def test_finding_of_two_pipelines_is_told_once_with_both_names() -> None:
    first_finding = replace(ORDER[1], used_by=("one",))
    ordered_findings = order_findings(
        [first_finding, replace(first_finding, used_by=("two",)), first_finding], SecretMask()
    )
    assert [finding.used_by for finding in ordered_findings] == [("one", "two")]


def test_finding_of_two_checks_is_told_once_by_the_first() -> None:
    tables = make_error("catalog.tables", "connection=kafka: bootstrap.servers is missing; add it")
    [finding] = order_findings([tables, replace(tables, check="kafka.reachable")], SecretMask())
    assert (finding.check, finding.advice) == ("kafka.reachable", "add it")


def test_error_without_a_way_out_gets_one() -> None:
    [finding] = order_findings([make_error("kafka.topics", "topic=t: gone")], SecretMask())
    assert finding.advice == DEFAULT_ADVICE


def test_message_of_the_product_is_told_as_cause_and_way_out() -> None:
    error = make_error("catalog.reachable", "catalog=lake refuses; correct the login; it will be tried again")
    assert (error.cause, error.advice) == ("catalog=lake refuses", "correct the login")


def test_secrets_are_masked_wherever_they_stand() -> None:
    mask = SecretMask()
    mask.add_settings({"sasl.password": "s3cret-w0rd", "nested": {"token": "t0ken"}, "user": "u", "password": "ab"})
    text = "s3cret-w0rd t0ken postgresql://u:hidden@h/db sc://h:1/;token=abc;x=1"
    [finding] = order_findings([replace(ORDER[1], cause=text, advice=text)], mask)
    for secret in ("s3cret-w0rd", "t0ken", "hidden", "abc"):
        assert secret not in finding.cause + finding.advice
    assert "postgresql://***@h/db" in finding.cause


def test_report_is_the_same_for_people_and_programs() -> None:
    findings = [replace(ORDER[1], used_by=("one", "two")), ORDER[3], ORDER[4]]
    text = format_findings(findings, 1.26)
    assert text.splitlines() == [
        "error    kafka.topics: b (for one, two)",
        "         do: x",
        "warning  files.connections: d",
        "         do: x",
        "ok       files.environment: e",
        "1 errors, 1 warnings, 1 ok, in 1.3 s",
    ]
    report = build_report(findings, 1.26)
    assert {name: report[name] for name in ("errors", "warnings", "ok", "seconds")} == {
        "errors": 1, "warnings": 1, "ok": 1, "seconds": 1.3,
    }  # fmt: skip
    assert report["findings"][0] == {
        "check": "kafka.topics", "severity": "error", "cause": "b", "advice": "x", "used_by": ("one", "two"),
    }  # fmt: skip


def test_page_has_the_table_of_checks() -> None:
    page = (Path(__file__).parents[4] / "docs" / "doctor.md").read_text()
    rows = [line.split("`")[1] for line in page.partition("## Checks")[2].splitlines() if line[:3] == "| `"]
    assert tuple(rows) == CHECKS
