"""The tests that ``make test`` leaves to ``make test-long``: each with the quick test that sees the same hazard.

A test is long only because this table lists it. It may be listed only if a test of ``make test`` fails of the same
fault: a long one repeats it with more points, types, ways or time. `tests/unit/test_long_tests.py` compares the table
with the files, and `tests/conftest.py` with the collected parameters.
"""

from collections.abc import Iterable


def _pick(test: str, *ids: str) -> list[str]:
    """The test for some of its parameters."""
    return [f"{test}[{parameter}]" for parameter in ids]


_CRASH = "tests/integration/test_crash_points.py::"
_SLEEPERS = "tests/integration/test_concurrency.py::test_runner_that_sleeps_through_two_newer_batches_changes_nothing"
_PUBLISHING = "tests/integration/test_publishing_crashes.py::"
_BROKER_KILLED = f"{_PUBLISHING}test_broker_that_is_killed_inside_a_transaction_costs_no_change_and_doubles_none"
_BIGQUERY = "tests/integration/test_bigquery.py::test_"
_MODES = "tests/integration/test_bigquery_modes.py::test_"
_BACKFILL = "tests/integration/test_backfill.py::test_"
_EXPRESSIONS = "tests/integration/test_expressions.py::test_"
_SERVERS_DOWN = "tests/integration/test_servers_down.py::test_"
_STANDING = "tests/integration/test_standing.py::test_"
_TRUNCATE = "tests/integration/test_truncate.py::test_truncate_empties_"
_VALUES = "tests/integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad"
_WHOLE = "tests/integration/test_values.py::test_whole_key_or_value_is_what_was_written_or_its_record_is_bad"
_INIT = "tests/integration/test_init.py::test_flush_of_the_file_that_init_wrote_equals_what_was_sent"
_HOURS = "tests/unit/tidegate_airflow/operators/test_complete.py::"
_LINEAGE = "tests/unit/tidegate/lineage/test_golden_lineage.py::"
_SECURED = "tests/integration/test_secured_brokers.py::test_"
_RIGHTS = "tests/integration/test_security.py::test_the_documented_rights_are_enough_and_the_password_is_seen_nowhere"
_PAGE, _AIRFLOW = "tests/e2e/test_page.py::", "tests/e2e/test_airflow.py::"

_ROLLBACK = f"{_STANDING}rollback_fails_until_it_is_answered_and_a_batch_staged_before_it_is_not_resumed_wrongly"
_LOST = "tests/integration/test_brokers_lost.py::test_"
_LAKE_STORE, _LAKE_KEYS = "tests/integration/test_lake_faults.py::", "tests/integration/test_lake_keys.py::"
_LAKE_FAULTS = f"{_LAKE_STORE}test_fault_of_the_catalog_at_a_commit_is_recovered_by_the_next_flush"
_QUICK_LAKE_FAULTS = ("merge-500 after the commit", "publish-429")
_KEYS_END = "tests/integration/test_lake_expiry.py::test_"
_REGISTRY = "tests/integration/test_registry.py::test_"
_I, _U = "tests/integration/test_", "tests/unit/"
_S, _T = f"{_U}scenarios/test_", f"{_U}tidegate/"
_FUZZ = f"{_I}decoder_fuzz.py::test_corrupt_record_is_a_row_or_bad_and_takes_no_other_down"
_WINDOWS = f"{_I}publication_aggregates.py::test_windows_and_a_global_aggregate_equal_recomputing_all"
_ONE_BY_ONE = f"{_I}sequence.py::test_statements_leave_what_one_record_at_a_time_would_leave"
_PLAIN_KEY = f"{_I}plain_keys.py::test_usual_spelling_is_read_off_and_any_text_is_what_the_parser_makes_of_it"
_OTHER_TABLE = f"{_I}expressions.py::test_change_event_of_another_source_table_deletes_no_row_of_the_same_key"
_NESTED_SCHEMA = f"{_I}connect_types.py::test_schema_of_the_envelope_is_looked_at_inside_of_structs_maps_and_lists"
_WRITTEN_ROW = f"{_I}written_records.py::test_row_of_every_type_is_read_back_as_it_was_written"
_EXECUTORS = "tests/e2e/executors/test_executors.py::test_"
_VERSIONS = "tests/e2e/versions/test_new_version.py::test_"
_TRIGGERS = "tests/e2e/test_triggers.py::test_"

# the quick test -> the long ones that it stands for; a name without [...] stands for every parameter
_BEHIND: dict[str, list[str]] = {
    # every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
    "tests/unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs": [
        *_pick(
            f"{_CRASH}test_fault_in_a_later_batch_is_recovered_by_the_next_run",
            "everything is staged and no answer came",
            "the branch was cut",
            "the branch was cut and no answer came",
            "the merge made its snapshot and the session ended",
            "the merge made its snapshot",
            "the publish was not sent",
            "the row of history was half written",
            "all is published and the group does not know",
            "the group knows and the answer was lost",
            "rows are staged and their counts are not",
            "staged rows are gone from the catalog and not from disk",
        ),
        *_pick(
            f"{_CRASH}test_fault_in_the_first_batch_is_recovered_by_the_next_run",
            "an intermediate table is there and nothing else",
            "the namespace is there and the table is not",
            "the table has its first snapshot and no answer came",
        ),
        "tests/crash/test_every_point.py::test_every_fault_at_every_point_of_a_later_batch",
        "tests/crash/test_every_point.py::test_every_fault_at_every_point_of_a_first_batch",
        "tests/crash/test_every_point.py::test_every_fault_at_every_point_of_a_run_that_recovers",
        "tests/crash/test_every_point.py::test_a_fault_at_every_place_on_servers",
        f"{_SECURED}every_broker_is_killed_in_turn_while_records_come_and_no_row_is_lost_or_doubled",
        f"{_LOST}broker_that_is_lost_for_good_is_missed_by_no_flush_no_group_and_no_transaction",
        f"{_LOST}flushes_go_on_while_brokers_are_restarted_one_after_another",
    ],
    # the two moments that differ: it had published before it fell asleep, and it had not
    f"{_SLEEPERS}[before the publish]": _pick(
        _SLEEPERS, "after plan", "after stage", "after the cut", "after the merge", "before the clean-up"
    ),
    "tests/integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next": [
        "tests/integration/test_soak.py::test_batches_with_kills_end_in_the_right_table_and_leave_nothing_behind",
        "tests/soak/test_many_pipelines.py::test_every_table_equals_its_topic_after_faults_and_nothing_grows",
        f"{_EXECUTORS}task_of_a_lost_worker_is_tried_again",
        f"{_EXECUTORS}tasks_of_a_lost_scheduler_are_taken_over",
        "tests/e2e/executors/test_queues.py::test_queue_that_goes_away_in_the_middle_of_a_merge_loses_no_row",
        "tests/e2e/executors/test_queues.py::test_task_of_a_lost_worker_is_tried_again_whatever_the_queue_is",
        "tests/e2e/executors/test_queues.py::test_tasks_that_wait_for_lost_workers_are_begun_by_those_that_follow",
        f"{_EXECUTORS}database_that_goes_away_under_running_flushes_loses_no_row",
        f"{_EXECUTORS}database_that_is_away_for_minutes_under_running_flushes_loses_no_row",
    ],
    "tests/integration/test_upgrade.py::"
    "test_pipeline_and_publication_of_an_older_version_go_on_where_that_one_stopped": [
        f"{_VERSIONS}new_version_goes_on_with_all_that_the_one_before_left_under_way",
        "tests/e2e/versions/test_new_airflow.py::"
        "test_newer_airflow_goes_on_with_all_that_the_one_before_left_under_way",
        f"{_VERSIONS}version_before_goes_on_where_no_run_is_under_way_and_so_does_the_new_one_behind_it",
    ],
    f"{_S}changed_tables.py::test_tables_that_change_before_any_step_lose_no_row_and_the_run_goes_on": [
        f"{_EXECUTORS}pipeline_whose_tables_change_under_a_running_flush_goes_on_with_those_of_its_file"
    ],
    "tests/integration/test_faults.py::test_spark_killed_in_the_middle_of_a_merge_is_survived_by_the_retry": [
        f"{_AIRFLOW}test_kill_of_the_spark_server_during_a_merge_is_recovered_by_the_retry"
    ],
    "tests/unit/scenarios/test_publication_walks.py::"
    "test_run_that_sleeps_at_any_call_while_others_go_on_changes_nothing_when_it_wakes": [
        f"{_PUBLISHING}test_exactly_once_reader_sees_each_change_once_whatever_is_killed_or_wakes_up_late",
        "tests/crash/test_every_point.py::test_every_call_of_producers_killed_or_woken_up_late",
    ],
    "tests/unit/scenarios/test_publication_walks.py::test_killed_run_is_recovered_by_a_run_towards_another_snapshot": [
        f"{_PUBLISHING}test_at_least_once_reader_misses_no_change_and_ends_with_the_last",
    ],
    f"{_BROKER_KILLED}[before a commit]": _pick(_BROKER_KILLED, "before a record"),
    "tests/integration/test_connect_types.py::test_every_logical_type_lands_exactly_and_every_one_may_be_null": [
        "tests/integration/test_debezium_postgres.py::test_iceberg_ends_as_postgres_row_by_row_and_type_by_type"
    ],
    "tests/unit/tidegate/flush/test_heartbeat.py::test_run_without_work_commits_again_what_the_brokers_would_forget": [
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
        f"{_BIGQUERY}records_name_their_tables_which_are_made_at_first_sight",
        # a key with a prefix there, and below one column
        f"{_I}fan_out.py::test_records_name_tables_whose_key_is_one_column_or_has_a_prefix",
    ],
    "tests/integration/test_command_line.py::test_plan_flush_and_status_tell_the_same_story": [
        f"{_BIGQUERY}commands_show_move_and_read_again"
    ],
    f"{_MODES}highest_sequence_stands_as_in_the_model[upsert_delete-soft]": [
        f"{_BIGQUERY}late_records_lose_and_a_deleted_row_does_not_come_back",
        *_pick(f"{_MODES}highest_sequence_stands_as_in_the_model", "upsert_delete-hard", "upsert-hard"),
    ],
    f"{_MODES}versions_are_laid_out_as_in_the_model_and_reading_again_changes_nothing[True]": _pick(
        f"{_MODES}versions_are_laid_out_as_in_the_model_and_reading_again_changes_nothing", "False"
    ),
    f"{_WINDOWS}[tumbling]": [
        *_pick(_WINDOWS, "hopping", "session", "whole"),
        f"{_I}publication_aggregates.py::test_word_count_over_an_upsert_topic_follows_each_change_with_retractions",
    ],
    f"{_ONE_BY_ONE}[hard]": _pick(_ONE_BY_ONE, "soft", "kept"),
    # what a driver leaves behind is read in unit tests; jobs run through spark-submit end to end
    "tests/unit/tidegate/adapters/spark/test_submit.py::test_error_of_a_submitted_job_keeps_its_kind_and_its_text": [
        "tests/integration/test_submit.py::"
        "test_publication_that_is_refused_in_a_submitted_job_is_refused_and_not_tried_again"
    ],
    "tests/integration/test_json_flush.py::test_rows_do_not_depend_on_how_batches_are_cut[both]": _pick(
        "tests/integration/test_json_flush.py::test_rows_do_not_depend_on_how_batches_are_cut",
        "upsert",
        "delete",
        "append",
    ),
    f"{_PLAIN_KEY}[id-BIGINT]": _pick(_PLAIN_KEY, "id-SMALLINT"),
    # how a format names the table of a change, and what is asked of that, are judged each alone
    **{
        f"{_OTHER_TABLE}[debezium-json-{choice}]": _pick(
            _OTHER_TABLE, *(f"{word}-{choice}" for word in ("maxwell-json", "canal-json", "ogg-json"))
        )
        for choice in ("route", "name")
    },
    # the longer condition has the shorter one as a part of it
    f"{_OTHER_TABLE}[debezium-json-when of the row too]": _pick(
        _OTHER_TABLE,
        "debezium-json-when",
        *(f"{word}-when of the row too" for word in ("maxwell-json", "canal-json", "ogg-json")),
    ),
    f"{_EXPRESSIONS}delete_whose_sequence_cannot_be_made_is_bad[True]": _pick(
        f"{_EXPRESSIONS}delete_whose_sequence_cannot_be_made_is_bad", "False"
    ),
    f"{_NESTED_SCHEMA}[debezium-json]": _pick(_NESTED_SCHEMA, "json"),
    # the same structs behind other words of a change event
    f"{_I}presence.py::test_struct_in_other_letters_is_bad_with_its_path_and_no_struct_of_nulls[debezium-json]": _pick(
        f"{_I}presence.py::test_struct_in_other_letters_is_bad_with_its_path_and_no_struct_of_nulls",
        *("envelope", "maxwell-json", "ogg-json"),
    ),
    # a row that is bad is set aside by one place, whatever is wrong with it; another reason than that one is its own
    f"{_I}row_messages.py::test_row_that_is_bad_for_its_table_makes_its_message_bad_as_a_whole[9-when]": _pick(
        f"{_I}row_messages.py::test_row_that_is_bad_for_its_table_makes_its_message_bad_as_a_whole",
        *("None-when", "9-route", "9-name", "9-sequence"),
    ),
    # the same encoders and parsers; a key has fewer types, and its schema is of another subject
    **{f"{_WRITTEN_ROW}[{word}-value]": _pick(_WRITTEN_ROW, f"{word}-key") for word in ("json", "csv")},
    f"{_I}written_messages.py::test_row_of_every_type_is_what_readers_have[value]": _pick(
        f"{_I}written_messages.py::test_row_of_every_type_is_what_readers_have", "key"
    ),
    "tests/integration/test_server_connections.py::"
    "test_server_keeps_nothing_of_sessions_that_have_ended[postgresql]": _pick(
        "tests/integration/test_server_connections.py::test_server_keeps_nothing_of_sessions_that_have_ended", "sqlite"
    ),
    f"{_ROLLBACK}[keep-kept_ids1]": _pick(_ROLLBACK, "rewind-kept_ids0"),
    # both empty the table's history; the second one leaves rows
    f"{_STANDING}create_or_replace_shows_like_a_rollback_and_both_ways_out_lead_on"
    "[CREATE OR REPLACE TABLE lake.shop.p AS SELECT * FROM lake.shop.p WHERE id > 1-remaining_ids1]": _pick(
        f"{_STANDING}create_or_replace_shows_like_a_rollback_and_both_ways_out_lead_on",
        "CREATE OR REPLACE TABLE lake.shop.p (id BIGINT, name STRING)-remaining_ids0",
    ),
    # the same three refusals, with the ways out behind them; growth by itself is refused in that file too
    f"{_STANDING}log_of_another_cluster_topic_or_length_is_told_and_rebase_leads_on": [
        "tests/integration/test_batches.py::test_recreated_topic_shrunk_log_and_growth_fail_loudly"
    ],
    "tests/integration/test_schemas.py::test_table_grows_at_every_depth_and_rows_of_before_stay": [
        "tests/integration/test_batches.py::test_columns_added_to_the_schema_appear_and_old_rows_keep_null"
    ],
    "tests/integration/test_ways_out.py::"
    "test_rollback_is_answered_once_by_the_printed_command[--rewind-expected0]": _pick(
        "tests/integration/test_ways_out.py::test_rollback_is_answered_once_by_the_printed_command",
        "--keep-expected1",
    ),
    # the same batches; without the envelope each event is decoded in tests of its format
    "tests/integration/test_debezium_flush.py::"
    "test_inserts_updates_deletes_and_their_tombstones_over_several_batches[True]": [
        *_pick(
            "tests/integration/test_debezium_flush.py::"
            "test_inserts_updates_deletes_and_their_tombstones_over_several_batches",
            "False",
        ),
        *[
            f"{_I}mongodb.py::test_documents_are_inserted_replaced_and_deleted_without_a_row_before",
            f"{_I}connect_types.py::test_plain_json_in_an_envelope_upserts_by_an_enveloped_key",
        ],
    ],
    # the choice is `always` as soon as a batch is small
    "tests/integration/test_superseded.py::"
    "test_table_is_the_same_whether_superseded_records_are_staged_or_not[auto-2]": _pick(
        "tests/integration/test_superseded.py::test_table_is_the_same_whether_superseded_records_are_staged_or_not",
        "always-2",
    ),
    "tests/contract/test_bigquery.py::test_publish_whose_answer_is_lost_is_found_by_its_name": [
        "tests/integration/test_bigquery.py::test_fault_at_a_point_of_bigquerys_is_recovered_by_the_next_run",
        "tests/crash/test_every_point.py::test_every_point_of_bigquerys_own",
    ],
    "tests/integration/test_maintenance.py::"
    "test_merge_that_meets_maintenance_between_cut_and_publish_cuts_again_and_succeeds": [
        "tests/integration/test_maintenance.py::test_flushes_beside_a_loop_of_maintenance_all_succeed"
    ],
    # a truncate at every place of a batch in memory; rows on both sides of it are flushed for real
    f"{_TRUNCATE}the_table_as_of_its_offset[twice, with rows between them]": _pick(
        f"{_TRUNCATE}the_table_as_of_its_offset",
        "alone",
        "first of a batch",
        "last of a batch",
        "rows before and after it in one batch",
    ),
    "tests/integration/test_partial.py::"
    "test_groups_end_as_the_model_wherever_batches_are_cut_and_after_a_second_reading[grouped_soft-table1]": _pick(
        "tests/integration/test_partial.py::"
        "test_groups_end_as_the_model_wherever_batches_are_cut_and_after_a_second_reading",
        "grouped-table0",
        "grouped_spread-table2",
    ),
    "tests/integration/test_transforms.py::"
    "test_batch_says_which_snapshot_of_a_dimension_it_read_and_a_second_match_is_a_bad_record": [
        f"{_BIGQUERY}select_makes_the_columns_and_joins_iceberg_tables"
    ],
    # what is proposed is checked without servers; these formats are flushed in tests of their own
    "tests/unit/tidegate/sampling/test_proposal.py::test_format_is_recognised_and_its_file_is_valid": [
        *_pick(_INIT, "maxwell", "golden_gate", "debezium_schema", "debezium", "canal"),
        *_pick(_INIT, "csv", "msgpack", "text", "raw"),
    ],
    "tests/unit/tidegate/sampling/test_proposal.py::test_key_by_its_look": _pick(_INIT, "clashing_key", "keyless"),
    # the same path of spark-submit, with a flush of two tasks and a compaction
    "tests/e2e/test_what_others_see.py::test_spark_submit_on_a_standalone_cluster_gives_the_same_table": [
        "tests/integration/test_maintenance.py::test_maintenance_through_spark_submit_does_the_same",
        f"{_AIRFLOW}test_publication_through_spark_submit_brings_the_table_to_its_topic",
    ],
    # the demo's parts: its events and its verdict in unit tests, its stack and its DAGs in every other end-to-end test
    f"{_AIRFLOW}test_the_schedule_flushes_by_itself_and_a_run_without_work_is_skipped": [
        f"{_AIRFLOW}test_the_demo_ends_with_every_table_equal_to_the_truth",
        f"{_EXECUTORS}two_schedulers_and_their_workers_share_the_flushes",
    ],
    # the same behaviour of the same code, by way of other servers
    "tests/integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance": [
        "tests/integration/test_lake.py::test_tables_are_right_through_a_backfill_maintenance_of_all_tables_and_a_kill",
        "tests/integration/test_lake_orphans.py::"
        "test_orphans_among_very_many_objects_are_found_by_listings_and_deleted_many_at_once",
        "tests/integration/test_lake_store.py::"
        "test_flushes_and_maintenance_into_another_store_leave_the_rows_and_nothing_else",
        "tests/contract/test_on_servers.py::test_destination_on_servers_does_the_same",
        "tests/contract/test_on_servers.py::test_named_branch_on_servers_does_the_same",
        # each request of that test is one of the documented actions; with the policy itself behind it
        f"{_I}store_rights.py::test_documented_policy_is_enough",
    ],
    # an answer that is lost or false at each commit of a flush: of each client a quick one, refused and unknown
    f"{_LAKE_FAULTS}[merge-500 after the commit]": _pick(
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
        "tests/integration/test_lake_deletes.py::"
        "test_store_that_deletes_nothing_fails_no_flush_and_the_next_clean_up_makes_it_good",
        "tests/integration/test_lake_deletes.py::"
        "test_listing_that_shows_nothing_yet_fails_no_flush_and_the_next_clean_up_makes_it_good",
    ],
    # keys handed out at another place of the answer, for longer, not renewed, or for ever by a server; and log-ins
    f"{_KEYS_END}merge_outlasts_its_keys_and_asks_for_newer_ones[short-config]": [
        *_pick(
            f"{_KEYS_END}merge_outlasts_its_keys_and_asks_for_newer_ones",
            "short-storage-credentials",
            "long-config",
            "long-storage-credentials",
        ),
        f"{_KEYS_END}keys_that_nobody_renews_end_a_merge_with_one_sentence_and_the_next_flush_does_it",
        f"{_KEYS_END}log_in_that_ends_in_the_middle_of_a_merge_is_renewed_by_both_sides",
        f"{_LAKE_KEYS}test_keys_that_the_catalog_hands_out_are_the_only_ones_in_use",
    ],
    f"{_T}adapters/iceberg/table/test_errors.py::test_refusal_is_never_taken_for_a_fault_that_passes": [
        f"{_I}lake_rights.py::test_documented_rights_are_enough_and_each_that_is_missing_is_named"
    ],
    # a log-in that a Spark server refuses, at a small server; one broker that asks for log-ins and rights
    "tests/unit/tidegate/adapters/spark/test_refused_login.py::"
    "test_refused_token_is_an_error_that_names_the_connection_and_is_not_tried_again": [
        f"{_SECURED}spark_answers_nobody_without_its_token_and_the_next_flush_with_it_does_the_work"
    ],
    # the proxy's settings fit the server's; run, a token that is refused through it is refused as without it
    "tests/unit/deploy/test_kubernetes.py::test_ports_fit_from_the_service_to_the_server": [
        "tests/integration/test_spark_tls.py::test_flush_goes_through_tls_with_the_token_and_nobody_gets_in_without"
    ],
    f"{_RIGHTS}[orders]": [
        f"{_RIGHTS}[submitted]",
        f"{_SECURED}secured_servers_serve_a_flush_and_no_secret_of_theirs_is_to_be_seen",
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
    # the same decoders, below other envelopes
    f"{_VALUES}[json]": _pick(
        _VALUES, "debezium-json", "ogg-json", "maxwell-json", "json in an envelope", "debezium-json in an envelope"
    ),
    f"{_VALUES}[json with its schema]": _pick(_VALUES, "debezium-json with its schema"),
    "tests/integration/test_values.py::test_bare_key_in_an_envelope_is_the_text_that_was_written[json]": _pick(
        "tests/integration/test_values.py::test_bare_key_in_an_envelope_is_the_text_that_was_written", "debezium-json"
    ),
    "tests/integration/test_values.py::test_key_is_the_number_that_was_written_also_in_an_envelope[json]": _pick(
        "tests/integration/test_values.py::test_key_is_the_number_that_was_written_also_in_an_envelope", "debezium-json"
    ),
    # the same folded statement, whose ungrouped column keeps its value when none comes
    # rows that move between daily partitions, and deletes that do not tell theirs
    f"{_MODES}batch_of_many_partitions_is_merged_in_parts[upsert_delete]": [
        *_pick(f"{_MODES}rows_are_found_in_whatever_partition_they_lie", "create0", "create1", "create2"),
        f"{_MODES}batch_of_many_partitions_is_merged_in_parts[append]",
    ],
    # a backfill from the command line with slices, later records and deletes
    f"{_BACKFILL}command_shows_first_then_restores_what_is_missing_and_nothing_older": [
        f"{_BIGQUERY}backfill_brings_back_what_is_missing_and_nothing_older",
        f"{_BACKFILL}rows_that_select_makes_come_back_too",
    ],
    # the model has soft deletes too
    "tests/unit/scenarios/test_backfill_model.py::"
    "test_up_to_date_table_with_sequences_equals_the_model_after_any_backfills": [
        f"{_BACKFILL}sequences_and_remembered_deletes_decide_in_a_backfill_too",
        f"{_BACKFILL}soft_deleted_rows_stay_deleted_in_a_backfill",
    ],
    # the same statement over hundreds of histories
    "tests/integration/test_history.py::test_rows_are_those_of_the_model_wherever_batches_are_cut": [
        "tests/integration/test_history.py::"
        "test_change_events_are_laid_out_by_the_sources_time_and_a_new_column_comes_along",
        "tests/integration/test_history.py::test_rows_selected_from_records_become_versions_by_their_timestamps",
    ],
    # any cuts and deaths in memory; the statement runs in [twice, with rows between them]
    "tests/unit/scenarios/test_truncates.py::test_table_equals_the_model_wherever_batches_are_cut_and_runs_die": [
        *_pick(f"{_TRUNCATE}the_table_as_of_its_offset", "in two batches", "and rows in the batch behind it"),
        "tests/integration/test_truncate.py::test_truncate_is_applied_once_whatever_befalls_its_run",
        f"{_I}truncate.py::test_update_that_leaves_columns_out_keeps_them_of_a_row_behind_the_truncate_alone",
    ],
    # the same client gives up
    f"{_SERVERS_DOWN}spark_that_goes_in_the_middle_and_stays_away_ends_the_flush_and_the_next_recovers": _pick(
        f"{_SERVERS_DOWN}spark_that_goes_while_a_session_is_opened_ends_the_flush_as_soon", "2", "4"
    ),
    # Spark's own server answers questions meanwhile, as the test's does
    "tests/unit/tidegate_spark/test_silent_server.py::"
    "test_server_that_goes_on_in_time_ends_the_statement_with_its_result": [
        f"{_SERVERS_DOWN}spark_that_goes_on_in_time_after_it_was_frozen_goes_on_with_its_job"
    ],
    "tests/unit/tidegate_spark/test_silent_server.py::test_statement_that_takes_long_without_a_word_is_not_ended": [
        f"{_SERVERS_DOWN}statement_that_takes_long_without_a_word_is_waited_for"
    ],
    # the same wait, for another server; its words without thirty real seconds
    f"{_SERVERS_DOWN}commands_without_brokers_say_so[plan]": [
        f"{_SERVERS_DOWN}flush_without_spark_waits_half_a_minute_and_says_whom_it_waited_for",
        f"{_SERVERS_DOWN}commands_without_brokers_say_so[status]",
    ],
    # what a leader answers whose log ends before the position; how the log comes to that, and what a flush then does
    "tests/contract/test_broker.py::test_log_that_ends_before_an_offset_under_the_epoch_of_that_offset_was_cut_there": [
        f"{_LOST}log_that_a_leader_without_the_newest_records_has_cut_is_told_also_when_it_has_grown_again",
    ],
    "tests/unit/tidegate/flush/test_plan_after_elections.py::"
    "test_topic_without_a_leader_delays_its_own_table_alone_and_loses_nothing": [
        f"{_LOST}partition_whose_only_replica_is_away_holds_up_its_own_table_alone_and_loses_nothing",
    ],
    # a setting that hides a secret by its name, of sessions and of applications
    "tests/unit/tidegate/test_redaction.py::"
    "test_secret_of_a_catalog_is_hidden_by_its_name_in_sessions_and_in_applications": [
        f"{_LAKE_KEYS}test_keys_of_a_connection_serve_both_sides_and_show_in_no_output_session_or_file",
        f"{_LAKE_KEYS}test_keys_show_in_no_event_log_and_on_no_command_line_of_a_submitted_job",
    ],
    # a refused log-in is one sentence, of a pipeline and of a publication
    "tests/unit/tidegate/adapters/kafka/test_errors.py::"
    "test_refused_log_in_of_a_publication_is_a_sentence_that_needs_a_person_as_that_of_a_pipeline": [
        "tests/integration/test_security.py::test_a_wrong_password_is_one_clear_error_that_does_not_hold_it",
        "tests/integration/test_security.py::test_a_wrong_password_of_a_publication_is_one_clear_error_too",
    ],
    # each table is sent to its own destination; each mode's statement runs in tests of the modes
    "tests/unit/tidegate/adapters/test_catalog_routing.py::test_engine_of_a_jobs_table_runs_it": [
        f"{_BIGQUERY}one_pipeline_writes_tables_of_both_and_every_mode_takes_what_is_its"
    ],
    # columns that come and columns that are relaxed, on the same server
    "tests/contract/test_bigquery.py::"
    "test_columns_are_added_and_relaxed_once_and_a_change_that_bigquery_cannot_make_changes_nothing": [
        f"{_BIGQUERY}columns_follow_the_pipeline_file"
    ],
    # with deletes it is the longer statement
    f"{_MODES}table_equals_the_model_after_batches_of_any_records[upsert_delete]": _pick(
        f"{_MODES}table_equals_the_model_after_batches_of_any_records", "upsert"
    ),
    "tests/unit/tidegate/adapters/bigquery/test_pruning.py::"
    "test_record_that_leaves_the_partition_column_out_does_not_tell_its_partition": [
        f"{_MODES}record_without_its_partition_column_updates_the_row_that_is_there"
    ],
    f"{_T}adapters/iceberg/table/test_lineage.py::"
    "test_position_behind_rows_that_were_picked_onto_main_is_not_gone_back_to": [
        f"{_STANDING}batch_that_was_picked_onto_main_after_a_rollback_is_not_read_again_and_comes_back_whole",
    ],
    f"{_T}adapters/iceberg/table/test_lineage.py::"
    "test_column_that_was_dropped_and_added_again_is_empty_until_somebody_fills_it": [
        f"{_I}schemas.py::test_key_that_was_dropped_and_added_again_is_refused_until_it_is_filled",
    ],
    "tests/unit/sql/test_iceberg_golden.py::test_table_name_is_quoted_part_by_part": [
        f"{_I}table_names.py::test_tables_of_odd_names_are_flushed_and_maintained",
    ],
    # every statement is rendered with odd names and parsed; a table with odd names is flushed in tests of columns
    "tests/unit/sql/test_iceberg_golden.py::test_statement_is_one_that_spark_reads": [
        "tests/integration/test_row_semantics.py::test_names_that_need_quoting_work_in_every_statement_of_every_mode"
    ],
    # keys of all types in later batches
    "tests/integration/test_row_semantics.py::test_key_of_any_type_finds_its_row": [
        "tests/integration/test_keys.py::test_key_columns_of_other_types_than_text_match_in_later_batches"
    ],
    "tests/unit/tidegate/flush/test_flush.py::test_ignored_tombstones_reach_lag_zero_in_upsert_only_tables": [
        "tests/integration/test_row_semantics.py::test_upsert_only_partitions_that_end_in_tombstones_reach_lag_zero"
    ],
    # the job compacts for real there; when it is due and what it rewrites is asked in unit tests
    "tests/integration/test_maintenance.py::"
    "test_maintenance_makes_a_table_small_and_loses_neither_position_nor_tag_nor_young_file": [
        "tests/integration/test_maintenance.py::test_compaction_behind_flushes_keeps_their_files_few_and_loses_nothing"
    ],
    "tests/unit/tidegate/flush/test_maintain.py::test_snapshots_between_main_and_the_last_published_one_are_kept": [
        "tests/integration/test_maintenance.py::test_expiry_never_cuts_main_off_from_the_last_published_snapshot"
    ],
    # at every call in memory
    "tests/unit/tidegate/flush/test_merge.py::"
    "test_merge_paused_at_any_call_while_newer_batches_are_published_changes_nothing": [
        "tests/integration/test_maintenance.py::"
        "test_merge_suspended_before_its_commit_survives_the_clean_up_of_another_runner"
    ],
    "tests/unit/scenarios/test_stable_results.py::test_commands_tell_where_publications_stand": [
        "tests/integration/test_publications.py::test_command_line_publishes_tells_and_validates"
    ],
    # updates, deletes and a rollback: any snapshot is a difference of rows
    # of the hash of a key a quick test asks a second implementation, this one Java's client
    "tests/integration/test_publications.py::test_partition_of_every_key_is_its_murmur2_hash": [
        "tests/integration/test_publications.py::test_partition_of_every_key_is_what_the_java_client_chooses"
    ],
    # the refusal; old keys are deleted by a comparison like keys that the table never had
    "tests/integration/test_publications.py::"
    "test_avro_and_protobuf_are_what_deserializers_read_and_a_key_of_another_schema_is_refused": [
        "tests/integration/test_publications.py::"
        "test_key_whose_schema_has_changed_is_refused_until_the_topic_is_compared"
    ],
    "tests/integration/test_publications.py::test_reader_of_the_topic_holds_the_table_after_every_kind_of_snapshot": [
        "tests/integration/test_truncate.py::test_publication_of_a_truncated_table_deletes_the_keys_that_went"
    ],
    "tests/unit/scenarios/test_truncates.py::test_batch_with_a_truncate_takes_a_statement_of_its_own_and_says_so": [
        "tests/integration/test_truncate.py::test_truncate_is_told_in_the_result_the_snapshot_and_history"
    ],
    # in memory for every mode, death and refusal; one backfill from the command line is run for real
    "tests/unit/tidegate/reprocess/test_backfill.py::test_backfill_killed_at_any_call_is_finished_by_the_next": [
        f"{_BACKFILL}backfill_killed_by_the_operating_system_goes_on_where_it_stopped"
    ],
    "tests/unit/scenarios/test_backfill_model.py::test_up_to_date_table_equals_the_model_after_any_backfills": [
        # a backfill without later records merges as a flush does
        f"{_BACKFILL}second_backfill_of_all_records_restores_what_the_first_left_to_later_ones",
        f"{_BACKFILL}every_mode_gets_back_the_last_state_of_each_key",
    ],
    "tests/unit/tidegate/reprocess/test_backfill.py::test_range_of_times_is_clipped_to_the_position": [
        f"{_BACKFILL}range_of_times_takes_the_records_of_that_time_up_to_the_position"
    ],
    "tests/unit/tidegate/reprocess/test_backfill.py::"
    "test_range_below_the_logs_start_is_refused_with_the_number_of_lost_offsets": [
        f"{_BACKFILL}what_cannot_be_decided_is_refused_in_one_sentence_each"
    ],
    "tests/unit/tidegate/reprocess/test_backfill.py::"
    "test_later_records_that_are_gone_are_named_and_nothing_is_written": [
        f"{_BACKFILL}later_records_that_the_topic_lost_are_named_and_nothing_is_written"
    ],
    # pipelines that come, change, break beside another and go; calls and failures look by look in unit tests
    "tests/integration/test_runner.py::test_files_that_come_change_and_go_are_followed": [
        "tests/integration/test_runner.py::test_pipelines_flush_on_their_own_and_a_failing_one_stops_none_of_them"
    ],
    # on BigQuery it asks for the order alone; files and snapshots are counted on Iceberg
    "tests/contract/test_destination.py::test_history_comes_newest_first_and_is_limited[bigquery]": [
        "tests/contract/test_destination.py::test_history_of_many_batches_is_kept_whole_in_few_files[bigquery]"
    ],
    "tests/contract/test_destination.py::"
    "test_clean_up_removes_old_batches_with_rows_snapshots_and_bytes_and_keeps_the_newer_one[bigquery]": [
        "tests/contract/test_destination.py::test_clean_up_of_everything_leaves_no_row_and_no_byte[bigquery]"
    ],
    "tests/contract/test_destination.py::"
    "test_publish_is_refused_when_another_publish_moved_the_position_or_the_table_was_replaced[bigquery]": [
        "tests/contract/test_bigquery.py::test_position_of_a_table_that_was_replaced_is_begun_anew"
    ],
    "tests/unit/tidegate/adapters/bigquery/stores/test_table_marks.py::"
    "test_mark_of_another_table_of_that_name_is_none": [
        "tests/contract/test_bigquery.py::test_table_of_that_name_that_was_made_again_is_nobodys"
    ],
    "tests/unit/tidegate_airflow/operators/test_step.py::"
    "test_trigger_waits_a_while_before_its_first_look_and_fires_when_the_job_has_ended": [
        "tests/contract/test_bigquery.py::test_trigger_wakes_the_task_when_the_job_it_waits_for_has_ended"
    ],
    "tests/unit/tidegate/adapters/bigquery/client/test_named_jobs.py::"
    "test_whoever_goes_away_while_a_job_runs_finds_it_again_and_sends_no_second": [
        "tests/contract/test_bigquery.py::test_publish_of_a_run_that_went_away_is_not_made_twice_by_the_next"
    ],
    "tests/unit/tidegate/adapters/bigquery/test_query_cost.py::"
    "test_a_job_tells_where_it_is_found_and_what_was_billed": [
        "tests/contract/test_bigquery.py::test_publish_tells_its_job_and_no_bytes_where_the_server_counts_none"
    ],
    # a real flush tells the same counts
    f"{_BIGQUERY}values_of_every_type_and_null_keys_end_as_the_last_record_says_and_clean_up_leaves_nothing": [
        "tests/contract/test_bigquery.py::test_publish_tells_how_many_rows_it_changed"
    ],
    "tests/contract/test_destination.py::test_remembered_deletes_are_forgotten_by_time_and_none_without_a_mark": [
        f"{_I}sequence.py::test_deletes_ordered_by_metadata_are_remembered_until_the_log_has_passed_their_retention"
    ],
    # the answers to a rollback in memory; one undo and one rewind are run by the printed command
    f"{_S}rollback_answers.py::test_undo_refuses_to_lose_what_others_wrote_since_unless_that_is_said": [
        f"{_I}ways_out.py::test_rollback_is_not_undone_over_another_writers_rows_but_by_the_printed_command"
    ],
    # a bad record is looked at, skipped and flushed on real servers by two clicks, and replayed in memory
    "tests/e2e/test_page.py::test_poison_record_is_looked_at_and_skipped_in_two_clicks_and_the_table_has_all_others": [
        f"{_I}ways_out.py::test_poison_record_is_shown_field_by_field_by_the_printed_command",
        f"{_I}ways_out.py::test_poison_record_is_skipped_by_the_printed_command_and_replayed_after_a_correction",
        f"{_I}bigquery.py::test_one_bad_record_is_looked_at_skipped_and_discarded",
    ],
    f"{_S}chosen_letters.py::test_only_the_chosen_letters_are_replayed_also_those_that_lie_between_others": [
        f"{_I}ways_out.py::test_dead_letters_are_chosen_exported_replayed_and_discarded"
    ],
    # what others do to a table, one thing at a time at a real catalog
    "tests/contract/test_destination.py::test_rollback_is_noticed_and_the_ancestors_position_told": [
        f"{_STANDING}rollback_behind_a_foreign_compaction_loses_nothing_and_one_before_it_is_told"
    ],
    "tests/contract/test_destination.py::test_rollback_to_where_no_ancestor_carries_a_position_tells_none": [
        f"{_STANDING}rollback_to_where_no_snapshot_tells_a_position_is_never_guessed"
    ],
    "tests/contract/test_destination.py::test_position_survives_the_expiry_of_the_snapshots_that_carried_it": [
        f"{_STANDING}position_outlives_every_snapshot_but_the_last_and_a_history_cut_off_is_told"
    ],
    "tests/contract/test_destination.py::"
    "test_publish_is_refused_when_another_publish_moved_the_position_or_the_table_was_replaced": [
        f"{_STANDING}table_replaced_by_another_of_its_name_is_told_and_starts_as_a_new_one"
    ],
    "tests/contract/test_destination.py::"
    "test_position_property_that_somebody_removed_is_found_in_the_tagged_snapshot": [
        f"{_STANDING}what_others_remove_by_hand_is_reported_or_recovered"
    ],
    f"{_T}flush/test_plan.py::test_new_partitions_start_at_the_log_start_whatever_start_says": [
        f"{_STANDING}growth_is_refused_or_accepted_and_a_new_topic_under_a_pattern_starts_at_its_logs_start"
    ],
    f"{_T}flush/test_plan.py::test_start_at_offsets_leaves_other_partitions_at_their_begin": [
        f"{_I}batches.py::test_start_at_offsets_reads_exactly_those_rows"
    ],
    # a table that fails or is refused beside others: every way in memory, one under the scheduler
    "tests/e2e/test_airflow.py::"
    "test_a_table_that_was_rolled_back_leaves_the_run_red_with_its_reason_and_the_other_published": [
        f"{_I}fan_out.py::test_table_that_was_rolled_back_holds_up_no_other_and_catches_up_when_it_is_fixed"
    ],
    f"{_T}table/test_batch_queue.py::test_failing_table_queues_its_batches_while_the_other_takes_each": [
        f"{_I}fan_out.py::test_table_that_a_schema_blocks_queues_its_batches_and_takes_them_when_it_is_fixed"
    ],
    f"{_T}flush/test_flush.py::test_failing_table_does_not_hold_up_the_other_and_the_run_is_red": [
        f"{_I}many_tables.py::test_failing_table_is_finished_by_the_next_flush_while_the_other_goes_on"
    ],
    "tests/contract/test_destination.py::"
    "test_publish_moves_main_tag_and_position_of_its_pipeline_alone_and_drops_the_branch": [
        f"{_I}many_tables.py::test_two_pipelines_into_one_table_keep_a_position_each"
    ],
    # runners that meet at any call in memory; two real ones meet in a merge, and one sleeps before its publish
    f"{_T}flush/test_flush.py::test_two_runners_at_any_interleaving_publish_once": [
        f"{_I}concurrency.py::test_two_flushes_at_once_in_processes_give_every_row_once"
    ],
    f"{_S}concurrency.py::test_runner_that_sleeps_at_any_point_changes_nothing_when_it_wakes": [
        f"{_I}concurrency.py::"
        "test_runner_that_sleeps_through_two_newer_batches_changes_nothing[before the commit of offsets]"
    ],
    f"{_T}flush/test_flush.py::test_heartbeat_corrects_what_a_zombie_committed": [
        f"{_I}concurrency.py::test_offsets_that_a_runner_commits_late_are_recovered_by_the_next_flush"
    ],
    f"{_T}adapters/iceberg/test_reparent.py::test_deletes_without_keys_and_rewritten_files_are_merged_again": [
        f"{_I}concurrency.py::test_foreign_compaction_between_cut_and_publish_is_survived"
    ],
    f"{_S}partial_updates.py::test_table_equals_the_model_wherever_batches_are_cut": [
        f"{_I}partial.py::test_many_histories_end_as_the_model_wherever_batches_are_cut"
    ],
    # the same decoder, below another envelope or in the key
    f"{_FUZZ}[json]": _pick(_FUZZ, "json envelope", "json-schema logical", "json lenient", "json hex", "json extended"),
    f"{_FUZZ}[debezium-json]": _pick(
        _FUZZ, "mongodb", "canal-json", "maxwell-json", "ogg-json", "debezium-json schema"
    ),
    f"{_FUZZ}[avro]": _pick(_FUZZ, "debezium-avro", "key avro"),
    f"{_FUZZ}[protobuf]": _pick(_FUZZ, "key protobuf"),
    f"{_FUZZ}[msgpack]": _pick(_FUZZ, "key msgpack"),
    f"{_FUZZ}[csv]": _pick(_FUZZ, "csv hex", "key csv"),
    f"{_FUZZ}[key json]": _pick(
        _FUZZ, "key json bare", "key json text", "key json lenient", "key json-schema", "key extended"
    ),
    f"{_T}sampling/test_proposal.py::test_key_that_is_named_is_taken_from_the_value": _pick(_INIT, "key_in_value"),
    f"{_T}sampling/test_proposal.py::test_id_of_a_schema_is_found_wherever_it_lies": [
        f"{_I}init.py::test_registered_change_events_and_a_bare_key_of_record_names",
        f"{_I}init.py::test_registered_messages_and_objects",
    ],
    f"{_T}sampling/test_proposal.py::test_several_topics_have_a_table_each": [
        f"{_I}init.py::test_several_topics_get_a_table_each_and_land"
    ],
    f"{_T}cli/new_pipeline/test_init.py::test_dry_run_takes_the_newest_records_of_each_partition_by_turns": [
        f"{_I}init.py::test_dry_run_shows_what_a_flush_would_make_of_ten_records_and_writes_nothing"
    ],
    # schemas that change: each rule without servers; a table that grows at every depth is flushed
    f"{_T}table/test_compatibility.py::test_column_renamed_in_the_table_keeps_receiving_the_records_field": [
        f"{_I}schemas.py::test_column_renamed_between_stage_and_merge_and_later_keeps_receiving_its_field"
    ],
    f"{_S}staged_shape.py::test_batch_staged_before_a_column_was_added_is_staged_again_with_it": [
        f"{_I}schemas.py::test_widening_while_a_batch_waits_under_the_old_shape_stages_it_again",
        f"{_I}key_from_value.py::test_setting_the_key_aside_for_the_value_stages_what_waits_again",
    ],
    f"{_T}schema/test_evolution.py::test_required_column_is_relaxed_where_the_record_may_lack_it": [
        f"{_I}schemas.py::test_required_columns_are_relaxed_and_a_forced_table_has_none"
    ],
    f"{_T}adapters/iceberg/table/test_schema_evolution.py::"
    "test_identifier_fields_stay_required_while_all_else_follows_the_pipeline": [
        f"{_I}schemas.py::test_table_with_identifier_fields_is_written_and_evolved_and_keeps_them"
    ],
    # offsets without a record: markers, aborts and an open transaction are met there, all in one topic
    f"{_I}accounting.py::test_transactions_are_counted_and_reach_lag_zero[read_committed-5-rows0]": [
        f"{_I}accounting.py::test_plain_topic_has_no_gap_and_an_aborted_transaction_alone_reaches_lag_zero",
        f"{_I}batches.py::test_aborted_transactions_leave_no_row_and_no_lag",
        f"{_I}batches.py::test_open_transaction_is_waited_for_and_then_read",
    ],
    f"{_T}flush/test_flush.py::test_compacted_topic_gives_the_same_table": [
        f"{_I}accounting.py::test_compacted_topic_is_read_over_its_holes_wherever_batches_are_cut"
    ],
    f"{_T}flush/test_flush.py::test_capped_batches_reach_the_end": [
        f"{_I}batches.py::test_updates_of_old_rows_in_capped_batches_over_partitions_end_in_the_newest"
    ],
    # bounds are worked out file by file in unit tests, and stand in the golden statement
    f"{_T}adapters/iceberg/pruning/test_key_ranges.py::test_bounds_hold_the_keys_of_every_staged_file": [
        f"{_I}pruning.py::test_merge_of_recent_keys_does_not_open_the_files_of_old_ones"
    ],
    # dead letters: the whole way of a poisoned topic is walked for real, the rest in memory
    f"{_T}merge/test_dead_letters.py::test_each_table_has_its_own_dead_letters": [
        f"{_I}dead_letters.py::test_record_that_is_bad_for_one_table_lands_in_the_other"
    ],
    f"{_T}adapters/iceberg/stores/test_dead_letters.py::test_letters_elsewhere_are_not_opened": [
        f"{_I}dead_letters.py::test_batch_with_bad_records_opens_no_dead_letters_of_earlier_offsets"
    ],
    "tests/unit/scenarios/test_dead_letters_of_old_topics.py::"
    "test_flush_after_the_topic_was_recreated_and_rebased_removes_no_dead_letter_of_the_old_one": [
        f"{_I}dead_letters.py::"
        "test_dead_letters_of_a_topic_that_was_created_again_stay_through_rebase_flush_and_replay",
        f"{_I}bigquery.py::test_dead_letters_of_a_topic_that_was_created_again_stay_and_older_tables_get_their_column",
    ],
    "tests/unit/scenarios/test_dead_letters_of_old_topics.py::"
    "test_letters_of_the_version_before_outlive_a_recreated_topic": [
        f"{_I}upgrade.py::test_dead_letter_that_an_older_version_left_outlives_a_topic_that_was_created_again"
    ],
    f"{_I}dead_letters.py::test_poisoned_topic_stops_at_the_first_bad_record_or_lands_with_the_bad_ones_set_aside": [
        f"{_I}strictness.py::test_bad_record_fails_the_flush_with_its_place_and_publishes_nothing"
    ],
    f"{_S}bad_topic.py::test_table_takes_its_records_when_the_bad_one_is_gone": [
        f"{_I}strictness.py::test_schema_corrected_after_a_bad_record_loses_nothing"
    ],
    f"{_S}named_branch.py::test_promoted_branch_is_gone_on_with_on_main": [
        f"{_I}named_branch.py::test_branch_of_a_table_is_written_audited_and_promoted"
    ],
    f"{_T}merge/test_audits.py::test_condition_is_asked_of_the_rows_that_the_mode_writes": [
        f"{_I}audits.py::test_condition_is_asked_of_the_rows_that_are_appended"
    ],
    f"{_S}when_false.py::test_history_closes_the_row": [
        f"{_I}expressions.py::test_row_leaves_the_table_when_its_condition_no_longer_holds"
    ],
    # what can be said of the compose file without starting it, and all of it started
    "tests/unit/deploy/test_compose.py::test_secret_that_a_script_reads_is_one_that_its_service_gets": [
        "tests/e2e/test_compose.py::test_stack_comes_up_flushes_publishes_and_is_watched"
    ],
    # the real registry answers what the tests' own does; the one that keeps Protobuf as text is read without servers
    f"{_REGISTRY}avro_of_two_schema_ids_in_a_batch_gives_the_rows_that_were_written": [
        f"{_REGISTRY}messages_are_read_whether_the_registry_keeps_them_serialized_or_as_text",
        f"{_REGISTRY}objects_of_two_schemas_take_their_columns_from_the_registry",
        f"{_REGISTRY}file_that_init_writes_flushes_what_was_sent",
        f"{_REGISTRY}records_of_a_deleted_version_are_still_read",
        f"{_REGISTRY}own_api_gives_the_same_rows",
        f"{_REGISTRY}publications_register_what_they_produce_and_extend_it",
        f"{_REGISTRY}doctor_finds_the_registry_well_and_a_missing_subject_by_its_name",
        f"{_REGISTRY}registry_that_dies_is_one_sentence_and_the_next_flush_loses_nothing",
    ],
    # formats: what is decoded is the same, and the flush behind it is another format's
    f"{_I}presence.py::test_update_without_a_key_that_changes_a_key_field_deletes_the_old_row": [
        f"{_I}debezium_flush.py::test_delete_without_a_record_key_finds_it_in_before"
    ],
    f"{_I}metadata_values.py::test_metadata_is_what_was_written_or_its_record_is_bad[ogg-json-pos]": [
        f"{_I}ogg.py::test_place_in_the_trail_orders_records_and_times_are_metadata"
    ],
    f"{_I}wire_formats.py::test_messages_and_objects_may_have_their_schema_in_a_header": [
        f"{_I}registry_formats.py::test_json_behind_a_schema_id_takes_its_columns_from_the_registry"
    ],
    f"{_I}wire_formats.py::test_record_types_of_one_topic_are_read_each_into_its_table[RecordNameStrategy]": _pick(
        f"{_I}wire_formats.py::test_record_types_of_one_topic_are_read_each_into_its_table", "TopicRecordNameStrategy"
    ),
    f"{_I}metadata.py::test_kafka_metadata_lands_typed_and_in_the_stated_order": [
        f"{_I}columns.py::test_metadata_columns_hold_what_kafka_says"
    ],
    f"{_S}key_in_value.py::test_rows_are_found_by_the_leaves_of_the_struct": [
        f"{_I}keys.py::test_whole_key_in_one_struct_column"
    ],
    f"{_I}keys.py::test_record_whose_key_and_value_differ_is_bad": [
        f"{_I}keys.py::test_prefix_keeps_key_and_value_columns_of_one_name_apart"
    ],
    # the text becomes plain JSON whatever the column's type is; keys of plain JSON of all types are read in their tests
    f"{_I}mongodb.py::test_key_is_the_value_in_its_text": [
        f"{_I}mongodb.py::test_key_of_another_type_is_the_value_in_its_text"
    ],
    # the same decoder; bad records are set aside with their offsets in tests of dead letters
    f"{_I}required_parts.py::test_avro_value_with_null_where_a_part_must_not_be_is_bad": [
        f"{_I}required_parts.py::test_bad_part_is_named_with_its_offset_and_takes_no_record_down_with_it"
    ],
    f"{_I}msgpack.py::test_key_of_a_record_without_one_is_taken_from_the_value[False]": [
        f"{_I}keys.py::test_keyless_topic_takes_the_key_from_the_value"
    ],
    "tests/unit/tidegate_spark/fields/test_avro_limits.py::test_whole_records_of_every_type_fit_and_cut_ones_do_not": [
        f"{_I}avro_bytes.py::test_length_that_no_record_has_is_a_bad_record_and_the_server_lives[server without limits]"
    ],
    # a join with a table as of the record's time is an example of the page, too
    f"{_I}transforms.py::test_examples_of_the_page_give_the_rows_that_it_promises": [
        f"{_I}transforms.py::test_compacted_topic_of_one_pipeline_is_joined_as_of_the_records_time_by_another"
    ],
    f"{_T}flush/test_heartbeat.py::test_records_that_wait_for_half_of_what_they_are_kept_are_warned_of": [
        f"{_I}heartbeat.py::test_status_warns_of_records_that_are_nearly_as_old_as_their_topic_keeps_them"
    ],
    f"{_T}adapters/iceberg/table/test_data_files.py::test_bytes_are_counted_where_the_summary_does_not_tell_them": [
        f"{_I}page.py::test_bytes_written_are_the_sizes_of_the_files_that_a_batch_added_delete_files_too"
    ],
    # the decoder of a batch is run on its own bytes there, and corrupt ones on real workers here
    f"{_U}tidegate_spark/formats/test_msgpack.py::"
    "test_batch_keeps_the_order_of_its_records_and_one_bad_record_takes_no_other_down": [
        f"{_I}msgpack.py::test_rows_of_two_partitions_are_inserted_updated_and_deleted_as_they_were_written"
    ],
    f"{_T}adapters/iceberg/table/test_commit.py::"
    "test_answer_of_the_catalog_tells_a_refusal_from_an_unknown_outcome": _pick(
        f"{_I}lake_faults.py::test_fault_of_the_catalog_at_a_commit_is_recovered_by_the_next_flush", "publish-429"
    ),
    "tests/unit/tidegate/reprocess/test_backfill.py::"
    "test_range_is_cut_into_slices_as_often_for_forty_partitions_as_for_two": [
        f"{_I}many_partitions.py::test_two_thousand_partitions_are_flushed_counted_committed_and_backfilled"
    ],
    f"{_S}select.py::test_sequence_may_be_made_of_the_record_by_select": [
        f"{_I}expressions.py::test_column_that_select_makes_orders_the_records"
    ],
    # by the words of real refusals; then each action alone
    f"{_U}tidegate/jobs/test_refused_rights.py::"
    "test_action_that_the_store_refused_is_named_by_its_words_or_by_the_call": [
        f"{_I}store_rights.py::test_flush_names_what_it_may_not_write_and_is_finished_where_it_may_not_delete",
        f"{_I}store_rights.py::test_each_action_alone_is_named_by_flush_and_maintenance_and_so_are_files_that_stayed",
        f"{_I}store_rights.py::test_upload_that_failed_in_the_middle_is_given_up_and_a_refusal_of_that_is_named",
    ],
    # the same questions, of an auth manager that tells DAGs apart
    f"{_I}airflow_roles.py::test_roles_of_the_simple_auth_manager_may_do_what_is_documented": [
        f"{_I}airflow_roles.py::test_roles_of_fab_may_do_the_same_and_single_dags_can_be_granted"
    ],
    # end to end: each DAG has run once; what a person may say to it, and when it waits, is judged without a scheduler
    f"{_U}tidegate_airflow/failures/test_back_off.py::"
    "test_change_of_a_file_is_tried_at_once_and_that_of_another_pipeline_is_not": [
        "tests/e2e/test_back_off.py::"
        "test_stopped_pipeline_waits_and_tells_once_and_tries_at_once_when_its_file_is_changed"
    ],
    f"{_U}tidegate_airflow/dags/test_run_outcome.py::"
    "test_tables_that_can_be_staged_are_merged_and_the_run_is_red_with_the_others_reason": [
        "tests/e2e/test_airflow.py::test_one_table_that_fails_leaves_the_run_red_and_the_others_published"
    ],
    f"{_U}tidegate_airflow/operators/test_action.py::"
    "test_preview_shows_and_changes_nothing_and_what_it_showed_is_done_by_who_asked": [
        "tests/e2e/test_page.py::test_form_of_the_actions_begins_with_a_preview_and_refuses_what_does_not_fit"
    ],
    f"{_TRIGGERS}records_that_wait_start_a_flush_and_fewer_do_not": [
        f"{_TRIGGERS}one_batch_by_hand_and_then_back_to_back_until_current"
    ],
    f"{_T}flush/test_plan.py::test_plan_changes_nothing": [
        f"{_TRIGGERS}a_dry_run_shows_the_plan_and_a_wrong_word_is_refused_by_the_form"
    ],
    f"{_T}adapters/iceberg/test_leftovers.py::test_tables_and_marks_of_a_pipeline_without_a_file_are_told": [
        f"{_TRIGGERS}a_deleted_file_stops_its_pipeline_and_the_janitor_tells_what_is_left"
    ],
    # the flush goes on at any call of the backfill in memory, between its cut and its publish too
    f"{_T}reprocess/test_backfill.py::test_backfill_paused_at_any_call_while_the_flush_goes_on_overwrites_nothing": [
        f"{_BACKFILL}flush_that_publishes_between_cut_and_publish_is_not_overwritten"
    ],
    # all orders of the calls of two replays
    f"{_S}replays_at_once.py::test_each_dead_letter_comes_in_once_whatever_the_order_of_two_replays": [
        f"{_I}dead_letters.py::test_two_replays_at_once_bring_each_dead_letter_of_a_table_without_a_key_in_once"
    ],
    f"{_WHOLE}[raw-key]": _pick(_WHOLE, "raw-value"),
    f"{_WHOLE}[string-value]": _pick(_WHOLE, "string-key"),
    f"{_I}written_messages.py::test_registered_message_is_used_as_it_is_with_each_type_that_it_may_have[proto3]": _pick(
        f"{_I}written_messages.py::test_registered_message_is_used_as_it_is_with_each_type_that_it_may_have", "proto2"
    ),
    # statements: each stands in a golden file, and the model of rows is walked in memory
    "tests/unit/sql/test_bigquery_golden.py::test_statement_reads_as_the_golden_file": [
        f"{_MODES}groups_have_the_values_of_their_highest_sequences_as_in_the_model",
        f"{_MODES}columns_keep_their_values_as_in_the_model",
        *_pick(f"{_MODES}table_equals_the_model_after_batches_of_any_records", "append", "delete"),
        f"{_MODES}batch_that_breaks_an_audit_changes_nothing",
        f"{_TRUNCATE}a_table_of_bigquery_too",
    ],
    f"{_T}merge/test_statements.py::test_parts_of_a_key_in_one_column_are_written_in_the_tables_order": [
        f"{_I}held_keys.py::test_closed_version_keeps_its_values_where_its_parts_stand_in_another_order",
    ],
    f"{_T}adapters/iceberg/test_older_specs.py::"
    "test_partition_whose_column_is_gone_is_told_and_one_that_was_taken_away_is_not": [
        f"{_I}held_keys.py::test_table_whose_partitions_column_was_dropped_is_merged_into_by_the_way_that_is_told"
    ],
    f"{_T}merge/test_statements.py::test_flag_of_deleted_rows_that_was_renamed_in_the_table_is_found_by_its_own_name": [
        f"{_I}schemas.py::test_flag_of_deleted_rows_is_renamed_and_goes_on_and_is_refused_once_it_is_dropped"
    ],
    f"{_T}merge/test_audits.py::test_batch_that_breaks_an_audit_is_not_published_and_stays_staged": [
        f"{_I}audits.py::test_audit_that_gives_no_true_or_false_is_one_error_that_is_not_tried_again"
    ],
    f"{_T}flush/test_compact.py::"
    "test_large_files_are_rewritten_for_the_share_of_their_deletes_and_never_for_the_number_of_delete_files": [
        f"{_I}maintenance.py::test_compaction_merges_the_delete_files_of_files_that_are_large_enough"
    ],
    # what brokers, stores and registries refuse: their answers are judged without them, each kind is met once for real
    f"{_T}merge/test_dead_letters.py::"
    "test_dead_letter_that_its_topic_does_not_take_is_named_by_its_place_and_sent_once_it_does": [
        f"{_I}broker_limits.py::"
        "test_dead_letter_that_is_larger_than_its_topic_takes_waits_with_the_others_until_it_does"
    ],
    f"{_S}publications.py::test_record_that_is_too_large_is_named_and_no_reason_to_try_again": [
        f"{_I}broker_limits.py::test_row_that_is_larger_than_its_topic_takes_is_published_once_it_does"
    ],
    f"{_S}publications.py::test_time_that_the_brokers_refuse_is_told_as_such_and_no_reason_to_try_again": [
        f"{_I}broker_limits.py::test_time_that_the_topic_refuses_is_told_with_its_row_and_published_once_it_is_taken"
    ],
    f"{_S}publications.py::test_right_that_is_missing_is_named_and_no_reason_to_try_again": [
        "tests/integration/test_security.py::test_publication_runs_with_exactly_the_documented_rights",
        f"{_I}registry_rights.py::test_publication_registers_as_a_writer_and_is_refused_as_a_reader",
    ],
    f"{_T}wiring/diagnosis/test_doctor.py::test_password_that_the_registry_refuses_is_found": [
        f"{_I}registry_rights.py::test_user_without_a_role_and_one_without_the_password_read_nothing"
    ],
    f"{_U}tidegate_spark/test_silent_server.py::test_server_that_freezes_while_a_statement_runs_ends_it": [
        f"{_SERVERS_DOWN}spark_that_freezes_in_the_middle_of_a_job_ends_the_flush_and_the_next_recovers",
        # the time that users have, and not two seconds
        f"{_SERVERS_DOWN}command_ends_within_four_minutes_where_spark_is_frozen_and_stays_so",
    ],
    f"{_I}open_files.py::test_flushes_leave_nothing_to_the_collector": [
        f"{_I}open_files.py::test_flushes_into_an_object_store_leave_nothing_to_the_collector"
    ],
    f"{_S}catalog_round_trips.py::test_flush_asks_a_fixed_number_of_times_for_each_table": [
        f"{_I}metadata_work.py::test_flush_loads_and_commits_a_fixed_number_of_times"
    ],
}

LONG = {long: quick for quick, behind in _BEHIND.items() for long in behind}


def is_long(node: str) -> bool:
    """Whether a test is left to ``make test-long``; `node` is pytest's name of it, with its parameters."""
    return node in LONG or node.partition("[")[0] in LONG


def find_unknown(nodes: set[str], listed: Iterable[str] = (*LONG, *LONG.values())) -> list[str]:
    """What is listed of the tests that were collected, all with all of their parameters, and is not among them."""
    tests = {node.partition("[")[0] for node in nodes}
    return sorted(name for name in {*listed} - nodes - tests if name.partition("[")[0] in tests)
