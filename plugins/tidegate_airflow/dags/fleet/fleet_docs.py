"""The text that the UI shows beside each task of a fleet."""

FLEET = """
Flushes the pipelines of the fleet **{fleet}** together: one look at all of them, and tasks for those with work only. A
pipeline's failure is its own: its mapped task is red, and the others go on. *Trigger* opens a form to pick pipelines.

| pipeline | tables | flushes |
| --- | --- | --- |
{rows}
"""
PLAN = """
**plan** asks the brokers once for the logs of all pipelines, and the catalogs side by side. Each pipeline that has work
gets an entry in the result; one that could not be planned, or that waits after a failure, gets one too, so that its own
task is red. `look` among the results counts the rest: who was looked at, who is idle. Where there is no entry and no
heartbeat is due, all other tasks are skipped.
"""
STAGE = """
**stage** of one pipeline: one Spark job reads exactly the planned offsets and writes the rows into the intermediate
tables. Where the pipeline could not be planned together with the others, it plans here first. A retry writes the same
batch again.
"""
MERGE = """
**merge** of one pipeline: each table's staged batches come into it, and rows and position are published in one commit;
the tables one after the other. A table that fails leaves the others to go on. A repeat publishes nothing twice.
"""
COMMIT_OFFSETS = """
**commit_offsets** reports, for each pipeline that was flushed, how far all its tables have come to its consumer group.
"""
CLEAN_UP = """
**clean_up** removes what published batches left behind, of each pipeline that had work or whose heartbeat is due;
`cleaned` among the results says what. Returns the pipelines with tables that should be compacted.
"""
HEARTBEAT = """
**heartbeat** commits again what is published, of each pipeline that had work or whose heartbeat's interval is over. It
turns red when a pipeline failed, and names each; `member_failures` among the results says since when.
"""
