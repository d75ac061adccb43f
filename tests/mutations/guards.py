"""Each guard that keeps records from being lost or doubled, how to switch it off, and the test that must then fail.

A guard is found by its exact text: a test fails if a guard was moved or rewritten, and this table must follow.
"""

from dataclasses import dataclass

REPARENT = "plugins/tidegate/adapters/iceberg/reparent.py"
REPARENTS = "tests/unit/tidegate/adapters/iceberg/test_reparent.py::test_"
SWAP = "tests/unit/tidegate/merge/test_compare_and_swap.py::test_"
COMMITS = "tests/unit/tidegate/adapters/iceberg/test_commit.py::test_"
COMMIT = "plugins/tidegate/adapters/iceberg/commit.py"
STAGING = "plugins/tidegate/adapters/iceberg/staging.py"
ICEBERG_POSITION = "plugins/tidegate/adapters/iceberg/position.py"
PRUNING = "plugins/tidegate/adapters/iceberg/pruning.py"
SQL = "include/sql/iceberg"
UNFINISHED = "plugins/tidegate/publications/plan.py"
PRODUCE = "jobs/tidegate_spark/publish/producer.py"
CRASHES = "tests/integration/test_publishing_crashes.py::test_"
WALKS = "tests/unit/scenarios/test_publication_walks.py::test_"
DESTINATION = "tests/contract/test_destination.py::test_"
TRUNCATES = "tests/integration/test_truncate.py::test_truncate_empties_the_table_as_of_its_offset"
COMPLETE, COMPLETES = "plugins/tidegate/flush/complete.py", "tests/unit/tidegate/flush/test_complete.py::test_"
CHECKS = "plugins/tidegate/table/position.py"
POSITION_TESTS = "tests/unit/tidegate/table/test_position_checks.py::test_"
STARTS, BEAT = "plugins/tidegate/table/start_offsets.py", "plugins/tidegate/flush/heartbeat.py"
COMPATIBILITY = "plugins/tidegate/table/compatibility.py"
COMPATIBLE = "tests/unit/tidegate/table/test_compatibility.py::test_"
REPLAYS = "tests/unit/tidegate/reprocess/test_replay.py::test_"
REPLAYS = "tests/unit/tidegate/reprocess/test_replay.py::test_"
REBASES = "tests/unit/tidegate/reprocess/test_rebase.py::test_"
ANSWERS = "tests/unit/tidegate/adapters/kafka/test_broker_answers.py::test_"
QUEUES = "tests/unit/tidegate/table/test_batch_queue.py::test_"
PLAIN_RECORDS = "tests/integration/test_plain_records.py::test_"
MERGE, FLUSH, STAGE, PLANS, BEATS = (
    f"tests/unit/tidegate/flush/test_{name}.py::test_" for name in ("merge", "flush", "stage", "plan", "heartbeat")
)


@dataclass(frozen=True)
class Guard:
    """`text` in `file` is the guard. With `off` in its place, `test` must fail."""

    name: str
    file: str
    text: str
    off: str
    test: str


GUARDS = [
    Guard(
        "compare-and-swap: main is still the cut",
        COMMIT,
        "        *_require_branch_at(table, target, expected_snapshot_id),\n",
        "",
        DESTINATION + "publish_is_refused_when_a_foreign_writer_moved_main[iceberg]",
    ),
    Guard(
        "compare-and-swap: another run's publish",
        COMMIT,
        "        *_require_branch_at(table, target, expected_snapshot_id),\n",
        "",
        DESTINATION + "publish_is_refused_when_another_publish_moved_the_position_or_the_table_was_replaced[iceberg]",
    ),
    Guard(
        "the branch is still what was checked",
        COMMIT,
        "        AssertRefSnapshotId(ref=table_commit.branch, snapshot_id=table_commit.head),\n",
        "",
        DESTINATION + "publish_is_refused_when_the_branch_moved_after_it_was_checked[iceberg]",
    ),
    Guard(
        "the schema is still the merged one",
        COMMIT,
        "        AssertCurrentSchemaId(current_schema_id=table_commit.schema_id),\n",
        "",
        DESTINATION + "publish_is_refused_when_the_schema_changed[iceberg]",
    ),
    Guard(
        "a rollback is undone only while main is as in the preview",
        COMMIT,
        "            *_require_branch_at(loaded_table, target, rollback.current_snapshot_id),\n",
        "",
        DESTINATION + "rollback_is_not_undone_where_main_moved_after_it_was_shown[iceberg]",
    ),
    Guard(
        "a rollback is undone only while the tag is as in the preview",
        COMMIT,
        "            AssertRefSnapshotId(ref=resource_names.name_tag(pipeline), snapshot_id=tagged),\n",
        "",
        DESTINATION + "rollback_is_not_undone_where_the_tag_moved_after_it_was_shown[iceberg]",
    ),
    Guard(
        "a skipped record lets no other bad record pass",
        "jobs/tidegate_spark/stage/dead_letters.py",
        "    if table.skips is not None:\n",
        "    if False:\n",
        "tests/integration/test_ways_out.py::test_poison_record_is_skipped_by_the_printed_command_and_replayed_after_a_correction",
    ),
    Guard(
        "a branch is cut where the position was read",
        COMMIT,
        "        *_require_branch_at(table, target, snapshot_id),\n",
        "",
        DESTINATION + "cut_is_refused_when_main_moved[iceberg]",
    ),
    Guard(
        "the position is still the batch's start",
        "plugins/tidegate/table/position.py",
        "if position is not None and (is_old or not ranges.continues(position.offsets)):",
        "if False:",
        "tests/unit/scenarios/test_concurrency.py::test_runner_that_sleeps_at_any_point_changes_nothing_when_it_wakes",
    ),
    Guard(
        "a lost answer is looked up",
        "plugins/tidegate/merge/attempt.py",
        "        with suppress(CommitRefused, OutcomeUnknown):\n",
        "        with suppress(CommitRefused):\n",
        MERGE + "answer_lost_after_the_publish_is_found_in_the_position",
    ),
    Guard(
        "the head is the one snapshot above the cut",
        "plugins/tidegate/merge/attempt.py",
        " and head.parent_id == parent_id",
        "",
        MERGE + "snapshot_that_somebody_put_below_ours_on_the_branch_is_not_published",
    ),
    Guard(
        "rows that Spark wrote outside of the branch do not count as no rows",
        "plugins/tidegate/merge/attempt.py",
        "    if elsewhere:\n",
        "    if False:\n",
        SWAP + "rows_that_landed_beside_the_branch_do_not_move_the_position[upsert_delete]",
    ),
    Guard(
        "missing rows of an append do not count as no rows",
        "plugins/tidegate/merge/attempt.py",
        "    if attempt.min_added_rows:\n",
        "    if False:\n",
        SWAP + "append_that_writes_nothing_does_not_move_the_position",
    ),
    Guard(
        "rows are reattached to a newer main only if no new file can hold their keys",
        REPARENT,
        "    if ranges is not None and not _are_files_outside(table, added_files, ranges):\n",
        "    if False:\n",
        REPARENTS + "rows_are_merged_again_where[a key between two of the batch]",
    ),
    Guard(
        "deletes are reattached to a newer main only if the files that they name exist",
        REPARENT,
        "    if has_deletes and (went or ranges is None):\n",
        "    if has_deletes and ranges is None:\n",
        REPARENTS + "rows_are_merged_again_where[a file that deletes name is gone]",
    ),
    Guard(
        "rows are not reattached to a main that was rolled back",
        REPARENT,
        " or cut not in ancestors:\n",
        ":\n",
        REPARENTS + "rows_are_merged_again_where_a_rollback_brought_deleted_rows_back",
    ),
    Guard(
        "files that hold copies of others' rows are not reattached to a newer main",
        REPARENT,
        "ManifestEntryStatus.DELETED and content == DataFileContent.POSITION_DELETES:\n",
        "ManifestEntryStatus.DELETED:\n",
        REPARENTS + "deletes_without_keys_and_rewritten_files_are_merged_again",
    ),
    Guard(
        "a merge that depends on rows of the table is not reattached to a newer main",
        "plugins/tidegate/merge/write_mode.py",
        "    return None if asks_rows else Reparenting(values)\n",
        "    return Reparenting(values)\n",
        SWAP + "merge_whose_result_depends_on_rows_that_others_may_have_changed_runs_again[sequence_by]",
    ),
    Guard(
        "expiry keeps the snapshots between a branch and the last publish",
        "plugins/tidegate/flush/maintain.py",
        "ms if at_most_ms is None else min(ms, at_most_ms)",
        "ms",
        "tests/unit/tidegate/flush/test_maintain.py::"
        "test_snapshots_that_others_add_during_a_long_compaction_do_not_cut_the_last_published_one_off",
    ),
    Guard(
        "only the pipeline that created a table sets its sort order",
        "plugins/tidegate/flush/merge.py",
        "    return creator == table.pipeline.name\n",
        "    return True\n",
        MERGE + "empty_table_that_somebody_else_created_keeps_its_order",
    ),
    Guard(
        "old metadata that cannot be deleted does not fail a commit",
        "plugins/tidegate/adapters/iceberg/files.py",
        "        except Exception as error:\n",
        "        except FileNotFoundError as error:\n",
        COMMITS + "old_metadata_that_cannot_be_deleted_does_not_fail_the_publish",
    ),
    Guard(
        "a clean-up keeps what was staged meanwhile",
        STAGING,
        "    commit(table, (AssertTableUUID(uuid=table.metadata.table_uuid), main), updates)\n",
        "    commit(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), updates)\n",
        COMMITS + "batches_that_were_staged_since_the_table_was_read_survive_a_clean_up",
    ),
    Guard(
        "a missing answer is not a refusal",
        COMMIT,
        '        raise _build_unknown(table, "the catalog gave no answer", error) from error',
        "        raise CommitRefused(str(error)) from error",
        COMMITS + "answer_of_the_catalog_tells_a_refusal_from_an_unknown_outcome",
    ),
    Guard(
        "the table is the one that the batch was staged for",
        "plugins/tidegate/flush/merge.py",
        "if staged_for is not None and staged_for != current_uuid:",
        "if False:",
        MERGE + "replaced_table_is_not_merged_into",
    ),
    Guard(
        "the low watermark",
        "plugins/tidegate/table/watermark.py",
        "    lowest = find_lowest(*(mark for _, mark in marks))\n",
        "    lowest = dict(next((mark for _, mark in marks), {}))\n",
        FLUSH + "group_gets_the_low_watermark_of_all_tables",
    ),
    Guard(
        "the group does not pass a table that has not read a partition",
        "plugins/tidegate/table/watermark.py",
        " for p, offset in lowest[topic].items() if p in known_partitions}",
        " for p, offset in lowest[topic].items()}",
        FLUSH + "group_does_not_pass_a_table_that_has_not_read_a_new_partition_or_topic",
    ),
    Guard(
        "the group gets no offsets of a topic that was deleted for a new one",
        "plugins/tidegate/table/watermark.py",
        "in known_ids if is_recreated(recorded, ids[topic])",
        "in known_ids if not recorded",
        BEATS + "old_offsets_are_not_committed_for_a_topic_that_was_created_again[group]",
    ),
    Guard(
        "the group of another cluster is left alone",
        "plugins/tidegate/table/watermark.py",
        "if t not in replaced and t not in foreign_topics}",
        "if t not in replaced}",
        BEATS + "group_of_another_cluster_is_left_alone[group]",
    ),
    Guard(
        "rows that were staged for another shape are not merged",
        "plugins/tidegate/flush/merge.py",
        "    check_shape(work.table, work.staged)\n",
        "",
        "tests/unit/scenarios/test_changed_tables.py::"
        "test_rows_that_were_staged_for_another_file_are_staged_again_and_not_merged",
    ),
    Guard(
        "rows in the columns of the destination are not merged for another file",
        "plugins/tidegate/table/queue.py",
        "    if not file_shape or file_shape != _compute_file_shape(table.spec, table.metadata):\n",
        "    if False:\n",
        "tests/unit/scenarios/test_changed_tables.py::"
        "test_rows_in_the_columns_of_the_table_are_staged_again_for_another_file",
    ),
    Guard(
        "the group waits for a table that cannot be read",
        "plugins/tidegate/table/watermark.py",
        "            failures.append(failure)\n            absent.append(observed.table)\n",
        "            failures.append(failure)\n",
        "tests/unit/scenarios/test_unreadable_table.py::test_flush_publishes_the_tables_that_can_be_read_and_the_group_waits_for_"
        "the_other[earliest]",
    ),
    Guard(
        "no catalog's secret goes to a server that would write it to its event log",
        "jobs/tidegate_spark/session.py",
        "    check_event_log(spark, conf)\n",
        "    pass\n",
        "tests/unit/tidegate/test_redaction.py::test_server_with_an_event_log_gets_no_catalogs_secret_unless_it_hides_it",
    ),
    Guard(
        "counts add up",
        "plugins/tidegate/model/batch.py",
        "if self.read == sum(getattr(self, name) for name in DISPOSITIONS) and self.gaps >= 0:",
        "if True:",
        STAGE + "counts_that_do_not_add_up_fail_the_step",
    ),
    Guard(
        "rows without counts are not staged",
        STAGING,
        "if outcome is None or outcome.bad:\n        return None\n",
        "outcome = outcome or StageOutcome("
        "read=0, staged=0, superseded=0, filtered=0, ignored=0, dead_lettered=0, bad=0)\n",
        DESTINATION + "attempt_that_did_not_finish_or_met_a_bad_record_is_not_staged[iceberg]",
    ),
    Guard(
        "a rollback is detected by the tag",
        ICEBERG_POSITION,
        "rolled_back = recorded is not None and (",
        "rolled_back = recorded is None and (",
        DESTINATION + "rollback_is_noticed_and_the_ancestors_position_told[iceberg]",
    ),
    Guard(
        "a clean-up keeps unpublished batches",
        STAGING,
        "batch is not None and batch <= up_to_batch)",
        "batch is not None)",
        DESTINATION + "clean_up_removes_old_batches_with_rows_snapshots_and_bytes_and_keeps_the_newer_one[iceberg]",
    ),
    Guard(
        "a clean-up drops branches and no tag",
        ICEBERG_POSITION,
        " if ref.snapshot_ref_type == SnapshotRefType.BRANCH]",
        "]",
        DESTINATION + "tag_of_a_pipeline_whose_name_reads_like_a_batch_of_ours_is_no_branch_to_drop[iceberg]",
    ),
    Guard(
        "remembered deletes are kept for the slowest pipeline of the table",
        "plugins/tidegate/flush/clean_up.py",
        "min(*known_times, session.now_ms())",
        "min(max(known_times), session.now_ms())",
        "tests/unit/scenarios/test_shared_table.py::"
        "test_faster_pipeline_forgets_nothing_that_the_slower_one_may_still_need[deletes]",
    ),
    Guard(
        "a record from a wrong clock lets no remembered delete be forgotten",
        "plugins/tidegate/flush/clean_up.py",
        "min(*known_times, session.now_ms())",
        "min(known_times)",
        "tests/unit/scenarios/test_shared_table.py::test_record_from_a_wrong_clock_lets_no_delete_be_forgotten[deletes]",
    ),
    Guard(
        "a table without our mark is not ours",
        "plugins/tidegate/adapters/iceberg/position.py",
        "    check_mark(name, owner, owner.properties, properties)\n",
        "",
        DESTINATION + "table_of_somebody_else_is_neither_claimed_nor_touched[iceberg]",
    ),
    Guard(
        "what another build has stored is not read",
        "plugins/tidegate/model/ownership.py",
        "    if (found := present.get(key)) != FORMAT:\n",
        "    if (found := present.get(key)) == 'never':\n",
        "tests/unit/scenarios/test_other_format.py::test_batch_that_another_build_has_staged_is_not_merged",
    ),
    Guard(
        "a file that leads to other tables of the pipeline's own is refused by every plan",
        "plugins/tidegate/table/progress.py",
        "            check_home(table)\n",
        "            pass\n",
        "tests/unit/scenarios/test_moved_home.py::test_batches_that_wait_under_another_suffix_are_not_forgotten",
    ),
    Guard(
        "a publish of a file that has changed since is refused",
        "plugins/tidegate/merge/attempt.py",
        "            check_home(attempt.table)\n",
        "            pass\n",
        "tests/unit/scenarios/test_moved_home.py::test_file_that_changes_between_stage_and_merge_publishes_nothing",
    ),
    Guard(
        "only an intermediate table of ours is dropped",
        STAGING,
        "        check_removable(table, (TableKind.INTERMEDIATE,))\n",
        "",
        DESTINATION + "table_of_somebody_else_is_neither_claimed_nor_touched[iceberg]",
    ),
    Guard(
        "only intermediate tables of ours are cleaned up",
        STAGING,
        "    check_removable(table, STAGING_KINDS)\n",
        "",
        DESTINATION + "table_of_somebody_else_is_neither_claimed_nor_touched[iceberg]",
    ),
    Guard(
        "deletes are forgotten in memories of ours only",
        "plugins/tidegate/adapters/iceberg/table.py",
        "    if table.metadata.properties.get(KIND_PROPERTY) not in MEMORY_KINDS:\n",
        "    if False:\n",
        DESTINATION + "remembered_deletes_are_forgotten_by_time_and_none_without_a_mark[iceberg]",
    ),
    Guard(
        "a table of ours is no destination",
        "plugins/tidegate/flush/merge.py",
        "    check_is_destination(work.prefix, table.state)\n",
        "",
        "tests/unit/tidegate/model/test_ownership.py::test_memory_of_another_pipelines_table_is_no_destination",
    ),
    Guard(
        "a table of remembered deletes or changes is claimed before it is evolved",
        "plugins/tidegate/merge/owed.py",
        "tables.claim(memory, describe_memory(spec)) is not None",
        "True",
        "tests/unit/tidegate/model/test_ownership.py::test_memory_of_somebody_else_is_neither_written_nor_evolved",
    ),
    Guard(
        "a plan reads the log after the positions",
        "plugins/tidegate/flush/plan.py",
        "    kafka_log, missing = read_known_log(session)\n",
        "    kafka_log, missing = read_known_log(session)\n    observed = observe_tables(session)\n",
        "tests/unit/tidegate/flush/test_plan.py::"
        "test_batch_that_another_run_publishes_during_the_plan_is_not_taken_for_a_log_cut_short",
    ),
    Guard(
        "a log that was cut and has grown again is refused",
        "plugins/tidegate/table/progress.py",
        "            check_not_cut(observed, end, log)\n",
        "",
        "tests/unit/tidegate/flush/test_plan_after_elections.py::"
        "test_log_that_was_cut_is_told_with_the_place_of_the_cut_whether_it_has_grown_again_or_not[3]",
    ),
    Guard(
        "only rows of the attempt are merged",
        "include/sql/shared/_parts.sql",
        " AND attempt = {{ parts[0][1] | text }}",
        "",
        "tests/integration/test_batches.py::test_rows_that_a_late_attempt_left_in_the_same_batch_are_not_merged",
    ),
    Guard(
        "keys are compared null-safe",
        f"{SQL}/_on_key.sql",
        'else "<=>" }}',
        'else "=" }}',
        "tests/integration/test_keys.py::test_null_in_a_composite_key_matches_itself_in_later_batches",
    ),
    Guard(
        "a batch is appended only where none of its keys can be in the table",
        PRUNING,
        "    return bool(high < key_range.low or low > key_range.high)\n",
        "    return bool(high <= key_range.low or low > key_range.high)\n",
        "tests/unit/tidegate/adapters/iceberg/test_file_overlap.py::"
        "test_file_whose_keys_end_before_or_begin_after_the_batchs_is_ruled_out[0-100-1]",
    ),
    Guard(
        "a batch with NULL in its key overlaps a file with NULLs",
        PRUNING,
        "    if key_range.nulls and missing != 0:\n        return False\n",
        "",
        "tests/unit/tidegate/adapters/iceberg/test_file_overlap.py::test_null_meets_null[True-nulls0-1]",
    ),
    Guard(
        "appended keys are new in the snapshot of the cut",
        "plugins/tidegate/merge/write_mode.py",
        '"at": snapshot_id',
        '"at": table.session.commits.read_head(table.name, "main").parent_id',
        "tests/unit/tidegate/merge/test_write_mode.py::test_key_of_the_newest_snapshot_is_not_new",
    ),
    Guard(
        "the last record of a key is the one with the highest offset",
        f"{SQL}/_last_per_key.sql",
        '{{ "offset" | ours }} DESC',
        '{{ "offset" | ours }}',
        "tests/integration/test_superseded.py::"
        "test_table_is_the_same_whether_superseded_records_are_staged_or_not[never-0]",
    ),
    Guard(
        "records that count beside a key's last one are staged",
        "plugins/tidegate/flush/key_deduplication.py",
        "        and not table.folds_records\n",
        "",
        "tests/unit/scenarios/test_partial_updates.py::"
        "test_every_record_counts_in_partial_updates_and_where_updates_change_some_columns",
    ),
    Guard(
        "a remembered delete outlives a late upsert",
        f"{SQL}/_last_by_sequence.sql",
        'else deletes | name }} t ON {% include "_on_key.sql" %}',
        "else deletes | name }} t ON false",
        "tests/integration/test_sequence.py::test_statements_leave_what_one_record_at_a_time_would_leave[hard]",
    ),
    Guard(
        "a backfill does not change keys with a later record",
        "plugins/tidegate/merge/statements.py",
        '        values["guarded"] = True\n',
        "        pass\n",
        "tests/integration/test_backfill.py::test_command_shows_first_then_restores_what_is_missing_and_nothing_older",
    ),
    Guard(
        "slices that were staged under another pipeline file do not count",
        "plugins/tidegate/reprocess/backfill_stage.py",
        " if batch.row_shape == current}",
        "}",
        "tests/unit/tidegate/reprocess/test_backfill.py::test_column_that_is_added_during_a_backfill_is_filled_in_all_slices",
    ),
    Guard(
        "slices that were applied under another pipeline file do not count",
        "plugins/tidegate/adapters/iceberg/history.py",
        "        if properties.get(SHAPE_PROPERTY) != shape:\n",
        "        if False:\n",
        DESTINATION + "slices_that_are_applied_stand_in_the_backfills_own_table_for_its_shape[iceberg]",
    ),
    Guard(
        "BigQuery: the transaction asserts the position's version",
        "include/sql/bigquery/publish.sql",
        ") = 1 AS {{ moved | text }};",
        ") >= 0 AS {{ moved | text }};",
        DESTINATION + "publish_is_refused_when_another_publish_moved_the_position_or_the_table_was_replaced[bigquery]",
    ),
    Guard(
        "BigQuery: staged rows are counted before they are merged",
        "plugins/tidegate/adapters/bigquery/commit.py",
        " = {rows} ",
        " >= 0 ",
        "tests/contract/test_bigquery.py::test_staged_rows_that_went_by_themselves_are_not_published_as_nothing",
    ),
    Guard(
        "BigQuery: the number of loaded rows must equal the number of written rows",
        "plugins/tidegate/adapters/bigquery/staging.py",
        "    if rows != (outcome.rows or 0):\n",
        "    if False:\n",
        "tests/unit/tidegate/adapters/bigquery/test_staging.py::"
        "test_attempt_whose_loads_bring_in_other_rows_than_were_written_is_not_staged[row_counts0]",
    ),
    Guard(
        "BigQuery: a publish that has moved the position is not sent again",
        "plugins/tidegate/adapters/bigquery/commit.py",
        "    if row is not None and table_commit.source is not None and row.version != table_commit.cut:\n",
        "    if False:\n",
        "tests/contract/test_bigquery.py::test_publish_that_is_tried_again_when_its_job_has_just_ended_appends_its_rows_once",
    ),
    Guard(
        "BigQuery: a row without its partition column does not limit the partitions",
        "plugins/tidegate/adapters/bigquery/pruning.py",
        'not (stats["deletes"] or stats["outside"])',
        'not stats["deletes"]',
        "tests/unit/tidegate/adapters/bigquery/test_pruning.py::"
        "test_record_that_leaves_the_partition_column_out_does_not_tell_its_partition",
    ),
    Guard(
        "BigQuery: a part of a large batch holds whole keys",
        "include/sql/bigquery/_staged.sql",
        "{% if leaves is defined %}FIRST_VALUE",
        "{% if false %}FIRST_VALUE",
        "tests/integration/test_bigquery_modes.py::test_batch_of_many_partitions_is_merged_in_parts[upsert_delete]",
    ),
    Guard(
        "BigQuery: a pipeline does not start again when its position is lost",
        "plugins/tidegate/table/position.py",
        "    if state.is_position_lost:\n",
        "    if False:\n",
        "tests/unit/tidegate/table/test_position_checks.py::test_lost_position_is_not_begun_anew_whatever_answers_a_rollback[keep]",
    ),
    Guard(
        "BigQuery: a publish has a name of its own and runs once",
        "plugins/tidegate/adapters/bigquery/commit.py",
        'name_job("publish", table_commit.table, table_commit.uuid, table_commit.attempt)',
        'name_job("publish", object())',
        "tests/contract/test_bigquery.py::test_publish_that_is_sent_twice_runs_once",
    ),
    Guard(
        "publication: a part continues only from the progress for which its run was planned",
        PRODUCE,
        '        elif record != self._part["expected"]:\n',
        "        elif False:\n",
        WALKS + "two_runs_from_the_same_progress_to_different_snapshots_leave_the_table[changes]",
    ),
    Guard(
        "publication: a new attempt fences the earlier one",
        PRODUCE,
        'settings["transactional.id"] = f"{plan[\'state_topic\']}-{number}"',
        'settings["transactional.id"] = f"{plan[\'state_topic\']}-{number}-{time.time_ns()}"',
        CRASHES + "exactly_once_reader_sees_each_change_once_whatever_is_killed_or_wakes_up_late[SIGSTOP-37]",
    ),
    Guard(
        "publication: a resumed attempt continues after the last committed key",
        PRODUCE,
        "if self._superseded or (self._after is not None and key <= self._after):",
        "if self._superseded:",
        WALKS + "killed_run_is_recovered_by_a_run_towards_another_snapshot[exactly-once-changes]",
    ),
    Guard(
        "publication: a part's progress is in the transaction of its changes",
        PRODUCE,
        "        value = json.dumps(position).encode()\n",
        "        value = json.dumps(position).encode()\n"
        "        if self._is_transactional:\n"
        "            self._flush()\n"
        "            self._retry(lambda: self._producer.commit_transaction(ANSWER_TIMEOUT_SECONDS))\n"
        "            self._producer.begin_transaction()\n",
        WALKS + "killed_run_is_recovered_by_a_run_towards_another_snapshot[exactly-once-changes]",
    ),
    Guard(
        "publication: a part continues between its own two states",
        UNFINISHED,
        "return part.pair == goal.pair if part.state is None else _is_origin(session, part, goal)",
        "return part.state is None or _is_origin(session, part, goal)",
        WALKS + "two_runs_that_both_die_on_their_ways_to_different_snapshots_leave_the_table[changes]",
    ),
    Guard(
        "publication: a part that is behind continues from its own state",
        UNFINISHED,
        "origin=stays.to, until=None",
        "until=None",
        WALKS + "two_runs_from_the_same_progress_to_different_snapshots_leave_the_table[changes]",
    ),
    Guard(
        "publication: a killed comparison is finished for every part",
        UNFINISHED,
        "        _find_not_compared(session, progress, fits)\n        or _find_in_progress(session, progress)\n",
        "        _find_in_progress(session, progress)\n",
        "tests/unit/tidegate/publications/test_unfinished_parts.py::"
        "test_comparison_that_died_between_two_parts_of_a_damaged_topic_is_finished[table moves]",
    ),
    Guard(
        "publication: without a transaction a part records its target before its first change",
        PRODUCE,
        "record is not None and (self._is_transactional or bool(last_key))",
        "record is not None",
        WALKS + "killed_run_is_recovered_by_a_run_towards_another_snapshot[at-least-once-changes]",
    ),
    Guard(
        "publication: a key with another row in an unchanged file is not deleted",
        "jobs/tidegate_spark/publish/table_changes.py",
        "    elif job.touched is not None and job.grouped is None:\n",
        "    elif False:\n",
        "tests/integration/test_publications.py::test_key_with_a_copy_in_another_file_is_refused_and_outlives_the_copy_"
        "and_new_fields_of_structs_change_no_row",
    ),
    Guard(
        "publication: a record that the brokers refuse is not retried",
        PRODUCE,
        "        if reason.code() not in REFUSAL_CODES:\n",
        "        if True:\n",
        "tests/unit/scenarios/test_publications.py::"
        "test_record_that_is_too_large_is_named_and_no_reason_to_try_again[broker-exactly-once]",
    ),
    Guard(
        "publication: keys whose bytes would differ from those in the topics are refused",
        "jobs/tidegate_spark/publish/job.py",
        "    if earlier_form is None or job.position.mode == RunMode.TOPIC:\n",
        "    if True:\n",
        "tests/integration/test_key_form.py::test_key_of_another_form_is_refused_and_none_that_was_not_noted",
    ),
    Guard(
        "publication: two values of a oneof are refused",
        "jobs/tidegate_spark/publish/encoders/protobuf_presence.py",
        "        if len(members) > 1:\n",
        "        if False:\n",
        "tests/integration/test_unwritable_rows.py::test_two_values_of_a_oneof_make_no_record",
    ),
    Guard(
        "publication: a state topic that is not compacted is refused",
        "plugins/tidegate/adapters/kafka/publication_topics.py",
        "        if publication.state_topic in existing:\n",
        "        if False:\n",
        "tests/integration/test_publications.py::"
        "test_topic_that_is_not_compacted_is_refused_unless_allowed_and_a_missing_one_is_made_compacted",
    ),
    Guard(
        "publication: both ends of a run are pinned",
        "plugins/tidegate/publications/publish.py",
        "        session.snapshots.pin(table, snapshot, format_pin_name(publication.name, snapshot))\n",
        "        pass\n",
        "tests/unit/scenarios/test_publications.py::test_killed_run_of_changes_is_resumed[2]",
    ),
    Guard(
        "publication: a topic that grew is refused",
        "plugins/tidegate/publications/plan.py",
        "if is_same and now not in (None, partitions):",
        "if False:",
        "tests/unit/scenarios/test_publications.py::test_topic_that_grew_is_refused_even_with_a_comparison",
    ),
    Guard(
        "publication: keys that a delete file reaches are compared",
        "plugins/tidegate/adapters/iceberg/snapshots.py",
        "place not in other_files or delete_scope.covers(file)",
        "place not in other_files",
        "tests/unit/tidegate/adapters/iceberg/test_snapshots.py::test_deletes_whose_one_data_file_is_not_certain_touch_all_of_their_partition[several]",
    ),
    Guard(
        "publication: keys that a delete file reaches in an unchanged manifest are compared",
        "plugins/tidegate/adapters/iceberg/snapshots.py",
        "{*touched_files, *elsewhere}",
        "{*touched_files}",
        "tests/unit/tidegate/adapters/iceberg/test_snapshots.py::test_vector_that_stays_where_it_is_touches_nothing_beside_one_that_goes",
    ),
    Guard(
        "publication: each of the deletion vectors in one file counts",
        "plugins/tidegate/adapters/iceberg/snapshots.py",
        "(file.file_path, file[CONTENT_OFFSET]): file",
        "(file.file_path, None): file",
        "tests/unit/tidegate/adapters/iceberg/test_snapshots.py::test_each_of_the_deletion_vectors_in_one_file_touches_its_data_file",
    ),
    Guard(
        "a number is a plain key only if it is spelled as Spark writes it",
        "jobs/tidegate_spark/fields/plain_keys.py",
        "CASE WHEN CAST({number} AS STRING) = {inside} THEN {number} END",
        "{number}",
        "tests/integration/test_plain_keys.py::test_usual_spelling_is_read_off_and_any_text_is_what_the_parser_makes_of_it[id-BIGINT]",
    ),
    Guard(
        "a text is one JSON object, and nothing follows it",
        "jobs/tidegate_spark/fields/json/objects.py",
        "CASE WHEN size({struct}.{ELEMENTS_FIELD}) = 2 THEN",
        "CASE WHEN true THEN",
        "tests/integration/test_strictness.py::test_value_that_is_not_one_json_object_is_bad",
    ),
    Guard(
        "an offset that no broker knows is not an offset of the log",
        "plugins/tidegate/adapters/kafka/errors.py",
        "    if unknown := [place for place, offset in answers.items() if offset < 0]:\n",
        "    if unknown := []:\n",
        "tests/unit/tidegate/adapters/kafka/test_broker_answers.py::test_answer_with_a_hole_is_asked_for_again_and_never_taken_for_the_log",
    ),
    Guard(
        "an unknown offset of a time is not the end of the log",
        "plugins/tidegate/adapters/kafka/errors.py",
        "if offset == NO_RECORD_OFFSET else offset",
        "if offset < 0 else offset",
        "tests/unit/tidegate/adapters/kafka/test_broker_answers.py::test_offset_of_a_time_that_nobody_knows_now_is_not_the_end_of_the_log",
    ),
    Guard(
        "a rebase hides no cut of a partition that it does not name",
        "plugins/tidegate/table/start_offsets.py",
        "merge_offsets(moved_epochs, keep_partitions(before.epochs, self.unchanged_offsets))",
        "log.epochs",
        "tests/unit/tidegate/flush/test_plan_after_elections.py::test_rebase_of_another_partition_hides_no_cut",
    ),
    Guard(
        "a rebase to a time skips no open transaction",
        "plugins/tidegate/table/start_offsets.py",
        "    return RebaseTarget(find_lowest(log.end, merge_offsets(log.begin, times)))\n",
        "    return RebaseTarget(times)\n",
        "tests/unit/tidegate/reprocess/test_rebase.py::test_a_time_behind_an_open_transaction_leaves_its_records_to_be_read",
    ),
    Guard(
        "names count as read only when all their tables are staged",
        "plugins/tidegate/flush/stage.py",
        "        if failures:  # a name must",
        "        if False:  # a name must",
        "tests/unit/tidegate/table/test_templated_tables.py::test_names_are_not_known_as_long_as_one_of_their_tables_is_not_staged",
    ),
    Guard(
        "a clean-up removes a later batch only if its attempt is never merged",
        "plugins/tidegate/adapters/iceberg/staging.py",
        "and batch > up_to_batch and last[batch] is s]",
        "and batch > up_to_batch]",
        "tests/contract/test_destination.py::test_attempt_that_follows_a_bad_one_under_its_number_is_kept[iceberg]",
    ),
    Guard(
        "published batches stay for live views that are reading",
        "plugins/tidegate/adapters/iceberg/staging.py",
        " and ms <= now_ms - KEPT_MS",
        "",
        "tests/unit/tidegate/adapters/iceberg/test_staging.py::"
        "test_published_batch_stays_whole_for_views_that_began_to_read_before_it_was_published",
    ),
    Guard(
        "a key that lacks a field is not a key with NULLs",
        "jobs/tidegate_spark/formats/json.py",
        """{render_missing_cases(text, 'kf', fields, 'the key')} ELSE""",
        "ELSE",
        "tests/integration/test_presence.py::"
        "test_key_is_what_its_fields_say_and_never_null_for_a_field_that_is_not_there",
    ),
    Guard(
        "a number is read with all of its digits",
        "jobs/tidegate_spark/fields/lossless.py",
        """guarded_type = "VARIANT" if _is_variant(data_type) else""",
        """guarded_type = "DOUBLE" if data_type.decimal else""",
        "tests/integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad[json]",
    ),
    Guard(
        "a tombstone without an event has no sequence",
        "jobs/tidegate_spark/stage/sequence.py",
        """table.metadata.get(name, "value.").startswith("value.")""",
        """name not in table.metadata""",
        "tests/integration/test_presence.py::test_lone_tombstone_has_no_sequence_of_the_event_that_it_lacks",
    ),
    Guard(
        "a tombstone that does not say whose it is deletes nothing",
        "jobs/tidegate_spark/formats/change_events/debezium_json.py",
        "return DELETE if is_owned and not table.key.from_value else NO_CHANGE",
        "return DELETE if not table.key.from_value else NO_CHANGE",
        "tests/integration/test_shared_topics.py::"
        "test_tombstone_deletes_only_where_key_and_kafkas_metadata_say_whose_it_is[settings1-ignored]",
    ),
    Guard(
        "a field that could not be read says nothing of whose a record is",
        "jobs/tidegate_spark/stage/foreign_records.py",
        """conditions.append(f"NOT ({decoded_value.doubts.get(name, 'true')})")""",
        "pass",
        "tests/integration/test_shared_topics.py::"
        "test_fields_that_conditions_name_say_whose_a_record_is_though_others_cannot_be_read[when]",
    ),
    Guard(
        "an update that changes the key deletes the old row",
        "jobs/tidegate_spark/stage/record_pass.py",
        "add_old_key_deletes(fated, decoded_value, table) if decoded_value.previous_key else fated",
        "fated",
        "tests/integration/test_presence.py::test_update_without_a_key_that_changes_a_key_field_deletes_the_old_row",
    ),
    Guard(
        "a truncate removes the existing rows",
        f"{SQL}/_into.sql",
        """{{ "OVERWRITE" if truncated_at is defined else "INTO" }}""",
        "INTO",
        TRUNCATES + "[first of a batch]",
    ),
    Guard(
        "a truncate removes the rows before it in its own batch",
        f"{SQL}/_staged.sql",
        "{%- if truncated_at is defined %} AND offset > {{ truncated_at }}{% endif %}",
        "",
        TRUNCATES + "[rows before and after it in one batch]",
    ),
    Guard(
        "a truncate keeps the rows after it in its own batch",
        f"{SQL}/_staged.sql",
        "AND offset > {{ truncated_at }}{% endif %}",
        "AND offset < {{ truncated_at }}{% endif %}",
        TRUNCATES + "[rows before and after it in one batch]",
    ),
    Guard(
        "the last truncate of a batch counts",
        "jobs/tidegate_spark/stage/record_pass.py",
        """f"max(CASE WHEN fate = 'staged' AND op = '{TRUNCATE}' THEN offset END)\"""",
        """f"min(CASE WHEN fate = 'staged' AND op = '{TRUNCATE}' THEN offset END)\"""",
        TRUNCATES + "[twice, with rows between them]",
    ),
    Guard(
        "the result of a plain pass with an unusual record is discarded",
        "jobs/tidegate_spark/stage/job.py",
        "is_unusual = is_plain and observed[UNUSUAL] > 0",
        "is_unusual = False",
        PLAIN_RECORDS + "batch_with_an_unusual_record_is_read_once_more_and_the_next_ones_at_once",
    ),
    Guard(
        "a staged batch is not of a topic that was created again while it was read",
        "plugins/tidegate/flush/staged.py",
        "    check()  # also of what it read: nothing of the job counts yet\n",
        "",
        STAGE + "topic_that_is_created_again_while_it_is_read_leaves_no_batch_of_its_records",
    ),
    Guard(
        "a staged batch is not of a log that was cut while it was read",
        "plugins/tidegate/table/log.py",
        "cuts = session.broker.find_log_cuts(ends, epochs) if epochs else {}",
        "cuts = dict[str, dict[int, int]]()",
        "tests/unit/tidegate/flush/test_plan_after_elections.py"
        "::test_log_that_is_cut_between_plan_and_read_leaves_no_batch_and_the_next_flush_doubles_no_row",
    ),
    Guard(
        "a stage job's attempt does not count before its worker has compared the topics",
        "plugins/tidegate/flush/stage_request.py",
        "property=resource_names.name_counted_property(attempt),",
        "property=names.name_staged_property(attempt),",
        STAGE + "worker_that_dies_before_it_has_compared_the_ids_leaves_no_batch_either",
    ),
    Guard(
        "a topic that was created again while its keys were read decides about no dead letter",
        "plugins/tidegate/reprocess/replay_stage.py",
        "        check_same_log(session, work.prefix, ranges, position)\n",
        "        pass\n",
        REPLAYS + "topic_that_is_created_again_while_the_later_keys_are_read_decides_about_no_dead_letter",
    ),
    Guard(
        "a plain pass does not judge a number that was rounded",
        "jobs/tidegate_spark/formats/plain_json.py",
        """        render_inner_doubt("row", fields),\n""",
        "",
        PLAIN_RECORDS + "usual_records_are_read_plainly_and_others_are_not_judged",
    ),
    Guard(
        "a plain pass does not judge a field name in another case",
        "jobs/tidegate_spark/formats/plain_json.py",
        """        render_takes_own_spelling(fields, list_known_fields(table), "row"),\n""",
        "",
        PLAIN_RECORDS + "usual_records_are_read_plainly_and_others_are_not_judged",
    ),
    Guard(
        "a local time that its zone skips is a bad value",
        "jobs/tidegate_spark/fields/lossless.py",
        "{render_ends_without_name(text)} THEN {cast} ",
        "true THEN {cast} ",
        "tests/integration/test_values.py::test_value_is_what_was_written_or_its_record_is_bad[json]",
    ),
    Guard(
        "an hour is reported only after the valid-through time",
        COMPLETE,
        "    while start + length <= _to_time(through_ms):\n",
        "    while start <= _to_time(through_ms):\n",
        COMPLETES + "millisecond_before_the_end_of_an_hour_is_too_early",
    ),
    Guard(
        "no hour is reported before the clock says that it is over",
        COMPLETE,
        "min(begin_ms, now + MAX_AHEAD_MS), min(through, now)\n",
        "min(begin_ms, now + MAX_AHEAD_MS), through\n",
        COMPLETES + "hour_that_is_not_over_yet_is_not_complete_whatever_a_producers_clock_says",
    ),
    Guard(
        "of several pipelines of a table the slowest decides which hours are reported",
        COMPLETE,
        "min(through, recorded.valid_through_ms)\n",
        "through\n",
        COMPLETES + "slower_pipeline_of_the_same_table_holds_its_hours_back",
    ),
    Guard(
        "one pipeline of a table reports its hours",
        "plugins/tidegate/config/pipeline_file.py",
        "    if conflicts:\n",
        "    if False:\n",
        "tests/unit/tidegate/config/test_pipeline_file.py::test_hours_of_a_table_are_told_by_one_of_its_pipelines",
    ),
    Guard(
        "a log that has lost the next records is refused",
        CHECKS,
        "    if lost_offsets:\n",
        "    if False:\n",
        POSITION_TESTS + "one_lost_offset_is_one_too_many",
    ),
    Guard(
        "a log that ends before the position is refused",
        CHECKS,
        "    if end < offset:\n",
        "    if False:\n",
        POSITION_TESTS + "log_that_ends_before_the_position_is_not_waited_for",
    ),
    Guard(
        "a topic that was created again is another one",
        CHECKS,
        "    if topic_id != recorded:\n",
        "    if False:\n",
        POSITION_TESTS + "recreated_topic_is_not_read_as_if_its_offsets_meant_the_same_records",
    ),
    Guard(
        "brokers of another cluster are not read",
        CHECKS,
        "log.cluster_id and position.cluster_id != log.cluster_id:\n",
        "log.cluster_id and False:\n",
        POSITION_TESTS + "brokers_of_another_cluster_are_not_read",
    ),
    Guard(
        "fewer partitions than before are a partial answer",
        CHECKS,
        "    if log_partitions and missing:\n",
        "    if False:\n",
        POSITION_TESTS + "fewer_partitions_than_a_topic_had_are_a_partial_answer_and_no_reason_to_move_the_position",
    ),
    Guard(
        "more partitions are refused where offsets order a key's records",
        CHECKS,
        "    if new_partitions and ordered_by_offset and",
        "    if False and",
        POSITION_TESTS + "partition_growth_is_refused_where_offsets_order_keys",
    ),
    Guard(
        "a batch from before a rebase is not the table's next one",
        CHECKS,
        "    is_old = state is not None and batch <= state.highest_batch\n",
        "    is_old = False\n",
        REBASES + "a_batch_staged_before_a_move_to_where_it_starts_is_neither_resumed_nor_published",
    ),
    Guard(
        "a first batch does not begin after the requested start",
        STARTS,
        "        if begin is not None and offset < begin:\n",
        "        if False:\n",
        PLANS + "table_does_not_start_behind_records_that_were_asked_for_and_are_gone",
    ),
    Guard(
        "a table of upserts lacks no keys of a compacted topic",
        STARTS,
        "        if compacted and not (table.state is not None and _holds_rows_of_others(session, table.spec)):\n",
        "        if False:\n",
        PLANS + "table_of_upserts_does_not_start_in_the_middle_of_a_compacted_topic",
    ),
    Guard(
        "start: latest reads partitions that are added later from their begin",
        STARTS,
        "            configured_start = session.broker.read_committed(source.group, topics) or log.end\n",
        "            configured_start = merge_offsets(log.end, session.broker.read_committed(source.group, topics))\n",
        PLANS + "start_latest_reads_what_is_added_behind_the_first_look_from_its_begin",
    ),
    Guard(
        "start: latest is kept alive until its table has begun",
        BEAT,
        "        return {topic: start[topic] for topic in unread_topics}\n",
        "        return {} if own_offsets else start\n",
        BEATS + "start_of_a_table_that_has_not_begun_is_committed_again_beside_one_that_has[latest]",
    ),
    Guard(
        "start: group is kept alive until its table has begun",
        BEAT,
        "    asked_topics = unread_topics if kind == StartKind.GROUP else empty\n",
        "    asked_topics = empty\n",
        BEATS + "start_of_a_table_that_has_not_begun_is_committed_again_beside_one_that_has[group]",
    ),
    Guard(
        "staged batches are published before their log is refused",
        "plugins/tidegate/flush/plan.py",
        "        table_batches = _list_table_batches(logged_table, fresh, scope)\n",
        "        table_batches = [] if error is not None else _list_table_batches(logged_table, fresh, scope)\n",
        "tests/unit/tidegate/flush/test_plan_of_queues.py::test_"
        "way_out_that_is_told_behind_the_queue_loses_no_record_that_was_staged_or_is_in_the_log",
    ),
    Guard(
        "a table that has lost a part of its key is not merged into",
        COMPATIBILITY,
        "    if missing:\n",
        "    if False:\n",
        COMPATIBLE + "table_that_lost_its_key_is_refused_and_one_that_was_emptied_is_not",
    ),
    Guard(
        "a key does not lose a part, nor gain one that existing rows lack",
        COMPATIBILITY,
        "    if previous_columns:\n",
        "    if False:\n",
        COMPATIBLE + "any_other_change_of_the_key_is_refused_and_nothing_is_staged",
    ),
    Guard(
        "remembered deletes and changes keep their column names",
        COMPATIBILITY,
        "        if own_path[-1].casefold() != path[-1].casefold():\n",
        "        if False:\n",
        COMPATIBLE + "history_keeps_the_names_of_parts_too",
    ),
    Guard(
        "a name that differs in more than case names another column",
        COMPATIBILITY,
        " and declared_name.lower() != table_name.lower():\n",
        " and False:\n",
        COMPATIBLE + "name_that_is_another_one_to_spark_is_not_written_into_that_column",
    ),
    Guard(
        "a time before 1970 is not the end of the log",
        "plugins/tidegate/adapters/kafka/broker.py",
        "OffsetSpec.for_timestamp(timestamp_ms) if timestamp_ms >= 0 else OffsetSpec.earliest()",
        "OffsetSpec.for_timestamp(timestamp_ms)",
        ANSWERS + "time_before_1970_is_no_word_for_the_end_of_the_log",
    ),
    Guard(
        "a commit that reads back differently is an error",
        "plugins/tidegate/adapters/kafka/errors.py",
        "    if unstored_offsets:\n",
        "    if False:\n",
        ANSWERS + "commit_that_is_not_read_back_as_it_was_sent_is_not_believed",
    ),
    Guard(
        "a rebase to the group begins a partition without an offset at its first record",
        "plugins/tidegate/table/start_offsets.py",
        "log, merge_offsets(log.begin, session.broker.read_committed(",
        "log, merge_offsets(log.end, session.broker.read_committed(",
        REBASES + "a_partition_that_the_group_has_no_offset_of_begins_at_its_first_record",
    ),
    Guard(
        "a truncate is applied in a topic of one partition alone",
        CHECKS,
        "    if table.spec.value.applies_truncates and several is not None:\n",
        "    if False:\n",
        "tests/unit/scenarios/test_truncates.py::test_topic_of_several_partitions_is_refused_before_anything_is_staged",
    ),
    Guard(
        "if a task is sent twice, the later one continues with the queue",
        "plugins/tidegate/flush/merge_queue.py",
        "            if not _count_published(session, queue):\n",
        "            if True:\n",
        "tests/unit/scenarios/test_sent_once_more.py::test_merge_that_is_sent_once_more_is_done_once_and_both_say_so",
    ),
    Guard(
        "batches are merged as one only if the last one's snapshot holds the rows of all",
        "plugins/tidegate/flush/merge_queue.py",
        "    while has_rows(group[:-1]) and not session.staging.holds_rows(intermediate, group):\n",
        "    while False:\n",
        QUEUES + "attempt_that_wrote_over_a_waiting_batch_cuts_the_queue_behind_it",
    ),
    Guard(
        "a snapshot holds a batch only in the files that its own attempt added",
        STAGING,
        "                if manifest.content != ManifestContent.DATA or entry.snapshot_id != staged[number]:\n",
        "                if False:\n",
        DESTINATION
        + "last_batch_does_not_read_rows_that_an_attempt_that_is_never_merged_has_written_over[iceberg-ends0]",
    ),
    Guard(
        "of batches that are merged as one, the later one has the later record",
        "plugins/tidegate/merge/statements.py",
        "    if staged_batch.ahead and table.history is None:",
        "    if False:",
        "tests/unit/scenarios/test_one_merge.py::test_queue_leaves_what_its_batches_leave_in_turn",
    ),
    Guard(
        "batches of two logs are not merged as one",
        "plugins/tidegate/table/queue.py",
        "(batch.shape, batch.cluster_id) == (last.shape, last.cluster_id)",
        "True",
        QUEUES + "group_ends_ahead_of_a_batch_that_cannot_be_merged_with_it",
    ),
    Guard(
        "a batch ahead of a bad one does not wait for it",
        "plugins/tidegate/flush/merge_queue.py",
        "            if takes_one or not has_rows(group[:-1]):\n",
        "            if True:\n",
        QUEUES + "batches_ahead_of_one_that_breaks_an_audit_come_in_one_by_one",
    ),
]
