"""The text that the UI shows beside each task."""

PLAN = """
**plan** reads each table's position from the table itself and the end of the log from the brokers, and decides which
half-open offset ranges become batch N. Batches that are staged and not published are finished first, in order. While a
table's queue is full (`max_pending`) there is no new batch; `held` in the result says so. A table that cannot go on
(rolled back, its log or its schema gone) is left as it is and listed under `refused`; the others go on.
Skipped when every table is at the end of the log, and in runs of Airflow's own backfill, which repeats dates: a
flush reads what waits, whatever its date.
"""
PLAN_MERGES = """
**plan** reads each table's position from the table itself and finds the staged batches that continue from it: a queue
for each table, which its merge publishes. Batches are staged by the DAG beside this one (`stage.interval`), also while
merges run. Skipped when nothing is staged, and when fewer rows are staged than `merge.records_threshold` says in a run
that only the heartbeat's time has started.
"""
FINISH = """
**finish** turns red when a task before it failed, or plan or stage refused a table, so that the run shows it. Offsets
are committed by the merges. Where the batch left records behind, the next run begins at once.
"""
STAGE = """
**stage** reads exactly those offsets once, decodes them, and overwrites batch N of each intermediate table under a new
attempt. A record that cannot be decoded is reported with its topic, partition and offset; nothing of its table's batch
is merged. Tables that can be staged go on, and the others are listed under `refused`; the task fails if none can.
"""
MERGE = """
**merge** brings a staged batch into its table on a branch and publishes it: main, tag and position move in one commit,
only if the table's position is still where the batch starts. A repeated or late attempt changes nothing. A table's
staged batches are published in order, up to the first that fails; the others go on meanwhile.
Returns the totals of rows inserted, updated and deleted. *Skipped* means that another run published first, *deferred*
that BigQuery runs a job that takes long.
"""
COMMIT_OFFSETS = """
**commit_offsets** reports to the consumer group the smallest published offset over all tables. Progress for people:
the position in the table decides.
"""
CLEAN_UP = """
**clean_up** removes published batches from the intermediate tables, their files from storage, and stale branches.
A failure here is reported and never fails the flush.
"""
COMPACT = """
**compact** rewrites small files and merges delete files, where enough of them are measured. It runs after every tenth
batch of a table (`maintenance.compact_every`) and is skipped otherwise. A failure here never fails the flush.
"""
MAINTAIN = """
**maintain** compacts small files and delete files where enough of them are measured, expires old snapshots, and removes
files that nothing refers to. It never touches a position, a tag or a running merge. Returns files and bytes before and
after, and the orphans removed.
"""
VERIFY = """
Compares the tables of `{pipeline}` with what the log says up to their positions (`verify.interval`). It changes no row.
A red run names the tables that differ; `bin/tidegate verify {pipeline}` shows the rows, and `--repair` writes them.
"""
VERIFY_TASK = """
**verify** reads the topics once more and compares. Returns, by table, how many keys are equal, missing, surplus,
different and unknowable. A table that cannot be verified is named in the log.
"""
HEARTBEAT = """
**heartbeat** runs at the end of every run, also a skipped one, and commits again what is published, so that quiet
partitions keep their committed offset. It turns red when a task before it failed, or plan or stage refused a table, so
that the run shows it.
"""
HEARTBEATS = """
**heartbeat** commits again what is published, and reports how a pipeline stands, of each pipeline that flushes less
often than its `heartbeat.interval`: all of them in one task. Pipelines whose DAG is paused, that are being flushed, or
that were never flushed are left alone. Red where one failed, with its name; the next run does it again.
"""
JANITOR = """
Reports what pipelines without a file have left behind: intermediate, dead-letter and control tables, and marks in
destinations, each with the statement that removes it (`remove` in the result). It removes nothing: the data is yours.
Skipped when there is nothing.
"""
FRESHNESS = """
**freshness** turns red, and with it the run, when a record has waited longer than `freshness_target`.
"""
COMPLETE = """
**complete** reports each hour or day of records' time that has become complete (`complete` in the pipeline file), as
an event of the asset `<table>/hour` or `<table>/day` whose partition key is that hour or day: once, and not
early where times within a partition do not fall.
DAGs with a `PartitionedAssetTimetable` on it start once for each. Skipped when there is none.
"""
PUBLISH = """
**publish** produces to Kafka what changed in the table since the last run: the new row of each key, and a tombstone for
each that is gone. How far it has come is recorded in the publication's state topic; a failed run is finished by the
next one. Skipped when no row has changed. Trigger it with *resynchronise* to compare the whole table with what the
topic holds.
"""
BACKFILL = """
Applies a part of the log to the tables of **{pipeline}** again: to repair rows that another writer damaged, or to fill
a column that the pipeline file has now. *Trigger* opens a form; begin with a dry run.

A backfill never overwrites what is newer and never brings a deleted row back: of each key it applies the last record,
and only if no later one was flushed. It leaves the flush's position as it is, and the flush goes on meanwhile. A range
is cut into batches of at most {batch} records (`merge.max_records`), which are applied one at a time, the newest
first. Clear a failed batch, or start the DAG with the same words again, and it goes on where it stopped.
"""
BACKFILL_PLAN = """
**plan** turns offsets or times into ranges that lie before the tables' positions and are still in the log, and cuts
them into batches. `tables` among its results shows ranges, records at most, batches, and how many later offsets must
be read to decide. Nothing is written; a dry run ends here.
"""
BACKFILL_BATCH = """
**batch** reads one slice of the range into an intermediate table of the backfill's own, and the keys of all later
records up to the position; then merges the slice's records into each table and publishes them in one commit. The first
one reads the later keys for all. A repeated or late attempt changes nothing.
"""
BACKFILL_CLEAN_UP = """
**clean_up** drops the backfill's intermediate tables, files included, and its marks. It runs when every batch is
applied; until then they are what lets the backfill go on.
"""
REPLAY = """
Decodes the dead letters of **{pipeline}** again, from their own bytes, with the schema that the pipeline file has now.
What can be read comes into its table in the order of the log, never over a newer row, and gets a `replayed_at`; the
rest stays, with today's reason. Correct the file first. A replay that was stopped is finished by the next one.
"""
REPLAY_TASK = """
**replay** returns for each table how many dead letters it tried, brought in and left, and the rows that changed.
"""
ACTIONS = """
What helps **{pipeline}** when it stands still, as the command line has it: skip one record, undo or answer a rollback,
move the position, discard dead letters. *Trigger* opens a form. It begins with a preview: the result `preview` of the
task **act** shows what would be done to rows, offsets and dead letters, and nothing is changed. Start the same without
*Preview* to do it; with the preview's digest as *As previewed* nothing else can be done than what was shown. *Look* and
*Explain* change nothing: their preview is the answer.

Who did what and when stands in the table beside its position, on the pipeline's page and in `bin/tidegate status`.
"""
ACT = """
**act** shows what is asked for as its result `preview`, and does it unless only a preview was asked for. It is skipped
where there is nothing to do. A run that is cleared does only what a preview has shown (`previewed`), and only while
that is still what it would do; else it changes nothing and fails: start the DAG again.
"""


FLEET = """
Flushes the pipelines of the fleet **{fleet}** together: one look at all of them, and tasks for those with work only. A
pipeline's failure is its own: its mapped task is red, and the others go on. *Trigger* opens a form to pick pipelines.

| pipeline | tables | flushes |
| --- | --- | --- |
{rows}
"""
FLEET_PLAN = """
**plan** asks the brokers once for the logs of all pipelines, and the catalogs side by side. Each pipeline that has work
gets an entry in the result; one that could not be planned, or that waits after a failure, gets one too, so that its own
task is red. `look` among the results counts the rest: who was looked at, who is idle. Where there is no entry and no
heartbeat is due, all other tasks are skipped.
"""
FLEET_STAGE = """
**stage** of one pipeline: one Spark job reads exactly the planned offsets and writes the rows into the intermediate
tables. Where the pipeline could not be planned together with the others, it plans here first. A retry writes the same
batch again. With `stage.interval` the pipeline's own DAG does this, and what is staged is handed on to the merge.
"""
FLEET_MERGE = """
**merge** of one pipeline: each table's staged batches come into it, and rows and position are published in one commit;
the tables one after the other. A table that fails leaves the others to go on. A repeat publishes nothing twice.
"""
FLEET_COMMIT_OFFSETS = """
**commit_offsets** reports, for each pipeline that was flushed, how far all its tables have come to its consumer group.
"""
FLEET_CLEAN_UP = """
**clean_up** removes what published batches left behind, of each pipeline that had work or whose heartbeat is due;
`cleaned` among the results says what. Returns the pipelines with tables that should be compacted.
"""
FLEET_HEARTBEAT = """
**heartbeat** commits again what is published, of each pipeline that had work or whose heartbeat's interval is over. It
turns red when a pipeline failed, and names each; `member_failures` among the results says since when.
"""
