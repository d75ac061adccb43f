"""The tests that ``make test`` leaves to ``make test-long``: each with the quick test that sees the same hazard.

A test is long by standing here and by nothing else. It may stand here only where a test of ``make test`` fails of the
same fault: a long one repeats it with more points, types, ways or time. `tests/unit/test_long_tests.py` holds the table
to the files, and `tests/conftest.py` to the parameters that are collected.
"""


def _cases(test: str, *ids: str) -> list[str]:
    """The test for some of its parameters."""
    return [f"{test}[{one}]" for one in ids]


_CRASH = "tests/integration/test_crash_points.py::"
_SLEEPERS = "tests/integration/test_concurrency.py::test_runner_that_sleeps_through_two_newer_batches_changes_nothing"
_PUBLISHING = "tests/integration/test_publishing_crashes.py::"
_PAGE, _AIRFLOW = "tests/e2e/test_page.py::", "tests/e2e/test_airflow.py::"

# the quick test -> the long ones that it stands for; a name without [...] stands for every parameter
_BEHIND: dict[str, list[str]] = {
    # every fault at every point, with the steps that are run everywhere over parts in memory; five are walked for real
    "tests/unit/test_failpoints.py::test_fault_at_any_point_leaves_what_the_next_runs_make_good": [
        *_cases(
            f"{_CRASH}test_fault_in_a_later_batch_is_made_good_by_the_next_run",
            "everything is staged and no answer came",
            "the branch was cut",
            "the branch was cut and no answer came",
            "the merge made its snapshot and the session ended",
            "the merge made its snapshot",
            "the publish was not sent",
            "the row of history was half written",
            "all is published and the group does not know",
            "the group knows and the answer was lost",
        ),
        *_cases(
            f"{_CRASH}test_fault_in_the_first_batch_is_made_good_by_the_next_run",
            "an intermediate table is there and nothing else",
            "the namespace is there and the table is not",
            "the table has its first snapshot and no answer came",
        ),
        "tests/crash/test_every_point.py::test_every_fault_at_every_point_of_a_later_batch",
        "tests/crash/test_every_point.py::test_every_fault_at_every_point_of_a_first_batch",
        "tests/crash/test_every_point.py::test_every_fault_at_every_point_of_a_run_that_recovers",
    ],
    # the two moments that differ: it had published before it fell asleep, and it had not
    f"{_SLEEPERS}[before the publish]": _cases(
        _SLEEPERS, "after plan", "after stage", "after the cut", "after the merge", "before the clean-up"
    ),
    "tests/integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next": [
        "tests/integration/test_soak.py::test_batches_with_kills_end_in_the_right_table_and_leave_nothing_behind"
    ],
    "tests/integration/test_faults.py::test_spark_killed_in_the_middle_of_a_merge_is_survived_by_the_retry": [
        f"{_AIRFLOW}test_kill_of_the_spark_server_during_a_merge_is_healed_by_the_retry"
    ],
    "tests/unit/scenarios/test_publication_walks.py::"
    "test_run_that_sleeps_at_any_call_while_others_go_on_changes_nothing_when_it_wakes": [
        *_cases(
            f"{_PUBLISHING}test_exactly_once_reader_sees_each_change_once_whatever_is_killed_or_wakes_up_late",
            "SIGSTOP-37",
        ),
        "tests/crash/test_every_point.py::test_every_call_of_producers_killed_or_woken_up_late",
    ],
    "tests/unit/scenarios/test_publication_walks.py::test_killed_run_is_made_good_by_a_run_towards_another_snapshot": [
        f"{_PUBLISHING}test_at_least_once_reader_misses_no_change_and_ends_with_the_last"
    ],
    "tests/integration/test_connect_types.py::test_every_logical_type_lands_exactly_and_every_one_may_be_null": [
        "tests/integration/test_debezium_postgres.py::test_iceberg_ends_as_postgres_row_by_row_and_type_by_type"
    ],
    "tests/unit/tidegate/steps/test_heartbeat.py::test_run_without_work_commits_again_what_the_brokers_would_forget": [
        "tests/integration/test_security.py::"
        "test_a_quiet_partition_keeps_its_offset_while_an_unkept_group_loses_its_own"
    ],
    "tests/contract/test_bigquery.py::test_publish_whose_answer_is_lost_is_found_by_its_name": [
        "tests/integration/test_bigquery.py::test_fault_at_a_point_of_bigquerys_is_made_good_by_the_next_run",
        "tests/crash/test_every_point.py::test_every_point_of_bigquerys_own",
    ],
    "tests/integration/test_maintenance.py::"
    "test_merge_that_meets_maintenance_between_cut_and_publish_cuts_again_and_succeeds": [
        "tests/integration/test_maintenance.py::test_flushes_beside_a_loop_of_maintenance_all_succeed"
    ],
    # the same path of spark-submit, with a flush of two tasks and a compaction
    "tests/e2e/test_what_others_see.py::test_spark_submit_on_a_standalone_cluster_gives_the_same_table": [
        "tests/integration/test_maintenance.py::test_maintenance_through_spark_submit_does_the_same",
        f"{_AIRFLOW}test_publication_through_spark_submit_brings_the_table_to_its_topic",
    ],
    # the demo's parts: its events and its verdict in unit tests, its stack and its DAGs in every other end-to-end test
    f"{_AIRFLOW}test_the_schedule_flushes_by_itself_and_a_run_without_work_is_skipped": [
        f"{_AIRFLOW}test_the_demo_ends_with_every_table_equal_to_the_truth"
    ],
    # one story in a browser; what the others see is asked of the page's answers in unit tests
    f"{_PAGE}test_dead_letters_come_in_by_a_click_once_the_schema_is_corrected": [
        f"{_PAGE}test_overview_says_how_every_pipeline_is_and_leads_to_it",
        f"{_PAGE}test_tab_on_a_dag_shows_its_pipeline_in_the_theme_of_airflow",
        f"{_PAGE}test_viewer_sees_everything_and_can_start_nothing",
        f"{_PAGE}test_form_of_a_backfill_refuses_what_is_wrong_and_takes_what_is_right",
        f"{_PAGE}test_publication_stands_below_the_pipelines_and_has_a_page_of_its_own",
        f"{_PAGE}test_stuck_pipeline_says_why_and_which_ways_lead_out",
    ],
}

LONG = {long: quick for quick, behind in _BEHIND.items() for long in behind}


def is_long(node: str) -> bool:
    """Whether a test is left to ``make test-long``; `node` is pytest's name of it, with its parameters."""
    return node in LONG or node.partition("[")[0] in LONG


def find_unknown(nodes: set[str]) -> list[str]:
    """What is listed of the tests that were collected, all with all of their parameters, and is not among them."""
    tests = {node.partition("[")[0] for node in nodes}
    listed = {*LONG, *LONG.values()}
    return sorted(name for name in listed - nodes - tests if name.partition("[")[0] in tests)
