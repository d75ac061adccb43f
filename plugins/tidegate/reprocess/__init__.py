"""Reading a part of the log again on request: backfill, replay of dead letters, rebase of a position."""
