-- The source table was emptied at offset {{ truncated_at }}: what its records behind that make is all that there is.
{% include "_into.sql" %}
FROM (
{% include "_folded.sql" %}
)
WHERE NOT {{ "ends_deleted" | ours }}
