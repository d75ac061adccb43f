"""The verbs of a flush, in order: plan, stage, merge, commit_offsets, clean_up, heartbeat."""
