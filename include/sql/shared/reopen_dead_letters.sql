-- What these replays have brought in, and a rollback of the destination has taken: it waits again.
UPDATE {{ table | name }} SET replayed_at = CAST(NULL AS TIMESTAMP), replayed_by = CAST(NULL AS STRING)
WHERE `table` = {{ target | text }} AND replayed_by IN ({% for attempt in attempts %}{{ attempt | text }}{{ ", " if not loop.last }}{% endfor %})
