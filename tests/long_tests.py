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
_BIGQUERY = "tests/integration/test_bigquery.py::test_"
_MODES = "tests/integration/test_bigquery_modes.py::test_"
_BACKFILL = "tests/integration/test_backfill.py::test_"
_EXPRESSIONS = "tests/integration/test_expressions.py::test_"
_SERVERS_DOWN = "tests/integration/test_servers_down.py::test_"
_STANDING = "tests/integration/test_standing.py::test_"
_TRUNCATE = "tests/integration/test_truncate.py::test_truncate_empties_"
_VALUES = "tests/integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad"
_INIT = "tests/integration/test_init.py::test_flush_of_the_file_that_init_wrote_equals_what_was_sent"
_HOURS = "tests/unit/tidegate_airflow/operators/test_complete.py::"
_LINEAGE = "tests/unit/tidegate/lineage/test_golden_lineage.py::"
_SECURED = "tests/integration/test_secured_brokers.py::test_"
_PAGE, _AIRFLOW = "tests/e2e/test_page.py::", "tests/e2e/test_airflow.py::"

_LAKE_STORE, _LAKE_KEYS = "tests/integration/test_lake_faults.py::", "tests/integration/test_lake_keys.py::"
_LAKE_FAULTS = f"{_LAKE_STORE}test_fault_of_the_catalog_at_a_commit_is_made_good_by_the_next_flush"
_QUICK_LAKE_FAULTS = ("merge-500 after the commit", "publish-429")

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
        f"{_SECURED}every_broker_is_killed_in_turn_while_records_come_and_no_row_is_lost_or_doubled",
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
            "OVERTAKEN-17",
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
    # the package as pip lays it out; in an environment of its own it is installed, and flushes
    "tests/unit/test_wheel.py::test_installed_command_tells_its_version_and_finds_its_statements_and_jobs": [
        "tests/integration/test_wheel.py::test_two_commands_bring_a_stock_airflow_to_a_flush_of_two_partitions",
        "tests/integration/test_wheel.py::test_job_is_submitted_from_the_package_with_the_libraries_that_it_needs",
    ],
    # the same command lines, statements and models as on Iceberg; what BigQuery does with them is judged mode by mode
    "tests/contract/test_bigquery.py::test_publish_that_is_sent_twice_runs_once": [
        f"{_BIGQUERY}of_two_runners_at_once_one_publishes_and_a_late_one_changes_nothing"
    ],
    "tests/integration/test_fan_out.py::test_records_name_their_tables_and_awkward_values_never_become_names": [
        f"{_BIGQUERY}records_name_their_tables_which_are_made_at_first_sight"
    ],
    "tests/integration/test_command_line.py::test_plan_flush_and_status_tell_the_same_story": [
        f"{_BIGQUERY}commands_show_move_and_read_again"
    ],
    f"{_MODES}highest_sequence_stands_as_in_the_model[upsert_delete-soft]": [
        f"{_BIGQUERY}late_records_lose_and_a_deleted_row_does_not_come_back",
        *_cases(f"{_MODES}highest_sequence_stands_as_in_the_model", "upsert_delete-hard", "upsert-hard"),
    ],
    f"{_MODES}groups_have_the_values_of_their_highest_sequences_as_in_the_model[shape0]": _cases(
        f"{_MODES}groups_have_the_values_of_their_highest_sequences_as_in_the_model", "shape1", "shape2"
    ),
    f"{_MODES}versions_are_laid_out_as_in_the_model_and_reading_again_changes_nothing[True]": _cases(
        f"{_MODES}versions_are_laid_out_as_in_the_model_and_reading_again_changes_nothing", "False"
    ),
    # of two choices that meet, each way of either once
    f"{_MODES}columns_keep_their_values_as_in_the_model[partial-False]": _cases(
        f"{_MODES}columns_keep_their_values_as_in_the_model", "unchanged-False"
    ),
    f"{_MODES}columns_keep_their_values_as_in_the_model[unchanged-True]": _cases(
        f"{_MODES}columns_keep_their_values_as_in_the_model", "partial-True"
    ),
    f"{_MODES}batch_that_breaks_an_audit_changes_nothing[n >= 0-hard]": _cases(
        f"{_MODES}batch_that_breaks_an_audit_changes_nothing", "n >= 0-soft"
    ),
    f"{_MODES}batch_that_breaks_an_audit_changes_nothing[SELECT COUNT(*) < 3 FROM {{table}}-soft]": _cases(
        f"{_MODES}batch_that_breaks_an_audit_changes_nothing", "SELECT COUNT(*) < 3 FROM {table}-hard"
    ),
    f"{_MODES}rows_are_found_in_whatever_partition_they_lie[create0]": _cases(
        f"{_MODES}rows_are_found_in_whatever_partition_they_lie", "create1", "create2"
    ),
    f"{_BACKFILL}every_mode_gets_back_the_last_state_of_each_key": [
        f"{_BIGQUERY}backfill_brings_back_what_is_missing_and_nothing_older"
    ],
    "tests/unit/scenarios/test_backfill_model.py::"
    "test_up_to_date_table_with_sequences_equals_the_model_after_any_backfills": [
        f"{_BACKFILL}sequences_and_remembered_deletes_decide_in_a_backfill_too"
    ],
    # in memory for every mode; of the modes the one with the longest statements is flushed for real
    f"{_EXPRESSIONS}row_leaves_the_table_when_its_condition_no_longer_holds[scd2]": _cases(
        f"{_EXPRESSIONS}row_leaves_the_table_when_its_condition_no_longer_holds", "plain", "sequence"
    ),
    f"{_EXPRESSIONS}column_that_select_makes_orders_the_records[none]": _cases(
        f"{_EXPRESSIONS}column_that_select_makes_orders_the_records", "scd2"
    ),
    "tests/integration/test_history.py::"
    "test_change_events_are_laid_out_by_the_sources_time_and_a_new_column_comes_along": [
        "tests/integration/test_history.py::test_rows_selected_from_records_become_versions_by_their_timestamps"
    ],
    "tests/integration/test_publication_aggregates.py::test_windows_and_a_global_aggregate_equal_recomputing_all": [
        "tests/integration/test_publication_aggregates.py::"
        "test_word_count_over_an_upsert_topic_follows_each_change_with_retractions"
    ],
    # what a driver leaves behind is read in unit tests; jobs run through spark-submit end to end
    "tests/unit/tidegate/adapters/spark/test_submit.py::test_error_of_a_submitted_job_keeps_its_kind_and_its_text": [
        "tests/integration/test_submit.py::"
        "test_publication_that_is_refused_in_a_submitted_job_is_refused_and_not_tried_again"
    ],
    "tests/integration/test_json_flush.py::test_rows_do_not_depend_on_how_batches_are_cut[both]": _cases(
        "tests/integration/test_json_flush.py::test_rows_do_not_depend_on_how_batches_are_cut",
        "upsert",
        "delete",
        "append",
    ),
    "tests/integration/test_plain_keys.py::test_whatever_the_text_the_key_is_what_the_parser_finds[BIGINT]": _cases(
        "tests/integration/test_plain_keys.py::test_whatever_the_text_the_key_is_what_the_parser_finds",
        "INT",
        "SMALLINT",
    ),
    "tests/integration/test_server_connections.py::"
    "test_server_keeps_nothing_of_sessions_that_have_ended[postgresql]": _cases(
        "tests/integration/test_server_connections.py::test_server_keeps_nothing_of_sessions_that_have_ended", "sqlite"
    ),
    f"{_STANDING}rollback_fails_until_it_is_answered_and_a_batch_staged_before_it_is_not_resumed_wrongly[keep-kept1]": (
        _cases(
            f"{_STANDING}rollback_fails_until_it_is_answered_and_a_batch_staged_before_it_is_not_resumed_wrongly",
            "rewind-kept0",
        )
    ),
    # both empty the table's history; the second one leaves rows
    f"{_STANDING}create_or_replace_shows_like_a_rollback_and_both_ways_out_lead_on"
    "[CREATE OR REPLACE TABLE lake.shop.p AS SELECT * FROM lake.shop.p WHERE id > 1-left1]": _cases(
        f"{_STANDING}create_or_replace_shows_like_a_rollback_and_both_ways_out_lead_on",
        "CREATE OR REPLACE TABLE lake.shop.p (id BIGINT, name STRING)-left0",
    ),
    # the same three refusals, with the ways out behind them; growth by itself is refused in that file too
    f"{_STANDING}log_of_another_cluster_topic_or_length_is_told_and_rebase_leads_on": [
        "tests/integration/test_batches.py::test_recreated_topic_shrunk_log_and_growth_fail_loudly"
    ],
    f"{_STANDING}growth_is_refused_or_accepted_and_a_new_topic_under_a_pattern_starts_at_its_logs_start": [
        "tests/integration/test_batches.py::test_start_at_offsets_reads_exactly_those_rows"
    ],
    "tests/integration/test_schemas.py::test_table_grows_at_every_depth_and_rows_of_before_stay": [
        "tests/integration/test_batches.py::test_columns_added_to_the_schema_appear_and_old_rows_keep_null"
    ],
    "tests/integration/test_ways_out.py::test_rollback_is_answered_once_by_the_printed_command[--rewind-expected0]": (
        _cases(
            "tests/integration/test_ways_out.py::test_rollback_is_answered_once_by_the_printed_command",
            "--keep-expected1",
        )
    ),
    # the same batches; without the envelope each event is decoded in tests of its format
    "tests/integration/test_debezium_flush.py::"
    "test_inserts_updates_deletes_and_their_tombstones_over_several_batches[True]": _cases(
        "tests/integration/test_debezium_flush.py::"
        "test_inserts_updates_deletes_and_their_tombstones_over_several_batches",
        "False",
    ),
    # the choice is `always` as soon as a batch is small
    "tests/integration/test_superseded.py::"
    "test_table_is_the_same_whether_superseded_records_are_staged_or_not[auto-2]": _cases(
        "tests/integration/test_superseded.py::test_table_is_the_same_whether_superseded_records_are_staged_or_not",
        "always-2",
    ),
    "tests/contract/test_bigquery.py::test_publish_whose_answer_is_lost_is_found_by_its_name": [
        "tests/integration/test_bigquery.py::test_fault_at_a_point_of_bigquerys_is_made_good_by_the_next_run",
        "tests/crash/test_every_point.py::test_every_point_of_bigquerys_own",
    ],
    "tests/integration/test_maintenance.py::"
    "test_merge_that_meets_maintenance_between_cut_and_publish_cuts_again_and_succeeds": [
        "tests/integration/test_maintenance.py::test_flushes_beside_a_loop_of_maintenance_all_succeed"
    ],
    # a truncate at every place of a batch in memory; rows on both sides of it are flushed for real
    f"{_TRUNCATE}the_table_as_of_its_offset[twice, with rows between them]": _cases(
        f"{_TRUNCATE}the_table_as_of_its_offset",
        "alone",
        "first of a batch",
        "last of a batch",
        "rows before and after it in one batch",
    ),
    f"{_TRUNCATE}the_table_as_of_its_offset[in two batches]": _cases(
        f"{_TRUNCATE}the_table_as_of_its_offset", "and rows in the batch behind it"
    ),
    f"{_TRUNCATE}a_table_of_bigquery_too[rows before and after it in one batch]": _cases(
        f"{_TRUNCATE}a_table_of_bigquery_too", "alone", "in two batches"
    ),
    "tests/integration/test_partial.py::"
    "test_groups_end_as_the_model_wherever_batches_are_cut_and_after_a_second_reading[grouped_soft-table1]": _cases(
        "tests/integration/test_partial.py::"
        "test_groups_end_as_the_model_wherever_batches_are_cut_and_after_a_second_reading",
        "grouped-table0",
        "grouped_spread-table2",
    ),
    # the same steps and messages on the other destination
    "tests/integration/test_dead_letters.py::"
    "test_dead_letters_of_a_topic_that_was_created_again_stay_through_rebase_flush_and_replay": [
        f"{_BIGQUERY}dead_letters_of_a_topic_that_was_created_again_stay_and_older_tables_get_their_column"
    ],
    "tests/integration/test_ways_out.py::"
    "test_poison_record_is_skipped_by_the_printed_command_and_replayed_after_a_correction": [
        f"{_BIGQUERY}one_bad_record_is_looked_at_skipped_and_discarded"
    ],
    "tests/integration/test_transforms.py::"
    "test_batch_says_which_snapshot_of_a_dimension_it_read_and_a_second_match_is_a_bad_record": [
        f"{_BIGQUERY}select_makes_the_columns_and_joins_iceberg_tables"
    ],
    # the same client, refused at its first connection and at a later one
    f"{_SERVERS_DOWN}spark_that_goes_while_a_session_is_opened_ends_the_flush_as_soon[2]": _cases(
        f"{_SERVERS_DOWN}spark_that_goes_while_a_session_is_opened_ends_the_flush_as_soon", "4"
    ),
    "tests/integration/test_servers_down.py::test_commands_without_brokers_say_so[plan]": [
        "tests/integration/test_servers_down.py::test_commands_without_brokers_say_so[status]"
    ],
    # the same decoder of the columns, below another envelope
    f"{_VALUES}[debezium-json]": _cases(
        _VALUES, "ogg-json", "maxwell-json", "json in an envelope", "debezium-json in an envelope"
    ),
    f"{_INIT}[debezium_with_schema]": _cases(_INIT, "debezium"),
    # what is proposed is checked without servers; these formats and keys are flushed in tests of their own
    "tests/unit/tidegate/sampling/test_proposal.py::test_format_is_recognised_and_its_file_is_valid": _cases(
        _INIT, "maxwell", "golden_gate"
    ),
    "tests/unit/tidegate/sampling/test_proposal.py::test_key_by_its_look": _cases(
        _INIT, "clashing_key", "events_without_key"
    ),
    # the same path of spark-submit, with a flush of two tasks and a compaction
    "tests/e2e/test_what_others_see.py::test_spark_submit_on_a_standalone_cluster_gives_the_same_table": [
        "tests/integration/test_maintenance.py::test_maintenance_through_spark_submit_does_the_same",
        f"{_AIRFLOW}test_publication_through_spark_submit_brings_the_table_to_its_topic",
    ],
    # the demo's parts: its events and its verdict in unit tests, its stack and its DAGs in every other end-to-end test
    f"{_AIRFLOW}test_the_schedule_flushes_by_itself_and_a_run_without_work_is_skipped": [
        f"{_AIRFLOW}test_the_demo_ends_with_every_table_equal_to_the_truth"
    ],
    # the same behaviour of the same code, by way of other servers
    "tests/integration/test_lake.py::"
    "test_tables_are_right_through_rollback_backfill_maintenance_a_kill_and_a_lost_answer": [
        "tests/contract/test_on_servers.py::test_destination_on_servers_does_the_same",
        "tests/contract/test_on_servers.py::test_named_branch_on_servers_does_the_same",
    ],
    # an answer that is lost or false at each commit of a flush: of each client a quick one, refused and unknown
    f"{_LAKE_FAULTS}[merge-500 after the commit]": _cases(
        _LAKE_FAULTS,
        *(
            f"{commit}-{fault}"
            for commit in ("stage", "merge", "publish", "cut")
            for fault in (
                "answer lost",
                "cut off",
                "500 after the commit",
                "502 after the commit",
                "503 after the commit",
                "504 after the commit",
                "409",
                "429",
                "503",
                "slow",
            )
            if f"{commit}-{fault}" not in _QUICK_LAKE_FAULTS
        ),
    ),
    f"{_LAKE_STORE}test_store_that_dies_between_an_upload_and_the_commit_leaves_nothing[/data/]": [
        f"{_LAKE_STORE}test_store_that_dies_between_an_upload_and_the_commit_leaves_nothing[/metadata/]",
        f"{_LAKE_STORE}test_fault_of_the_store_at_an_upload_passes",
        f"{_LAKE_STORE}test_catalog_that_dies_behind_the_merge_leaves_nothing",
    ],
    # a log-in that a Spark server refuses, at a small server; one broker that asks for log-ins and rights
    "tests/unit/tidegate_spark/test_refused_login.py::"
    "test_refused_token_is_an_error_that_names_the_connection_and_is_not_tried_again": [
        f"{_SECURED}spark_answers_nobody_without_its_token_and_the_next_flush_with_it_does_the_work"
    ],
    "tests/integration/test_security.py::test_the_documented_rights_are_enough_and_the_password_is_seen_nowhere": [
        f"{_SECURED}secured_servers_serve_a_flush_and_no_secret_of_theirs_is_to_be_seen"
    ],
    # the same settings, by way of spark-submit and its event log
    f"{_LAKE_KEYS}test_keys_of_a_connection_serve_both_sides_and_show_in_no_output_session_or_file": [
        f"{_LAKE_KEYS}test_keys_show_in_no_event_log_and_on_no_command_line_of_a_submitted_job"
    ],
    # the same lineage, through Airflow's provider, which is installed beside the environment
    f"{_LINEAGE}test_each_column_of_a_pipelines_tables_is_traced_to_fields_of_its_topics": [
        "tests/integration/test_openlineage.py::test_flush_backfill_and_publication_tell_where_each_column_comes_from",
    ],
    # what the sink leaves is made by hand there; here by the connector itself
    "tests/integration/test_import.py::test_iceberg_sink_is_switched_under_live_data": [
        "tests/integration/test_import_connector.py::test_real_sink_is_switched_under_live_data",
    ],
    # the same DAG of partitions, started by the real scheduler behind real flushes
    f"{_HOURS}test_dag_that_is_scheduled_on_partitions_starts_once_for_each_hour": [
        "tests/e2e/test_complete.py::test_dag_behind_a_table_starts_once_for_each_hour_and_not_before_its_last_record",
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
