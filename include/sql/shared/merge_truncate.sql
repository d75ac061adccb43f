-- The source table was emptied at offset {{ truncated_at }}: what its records behind that make is all that there is.
{% include "_into.sql" %}
FROM (
{% include "_last_per_key.sql" %}
)
WHERE {{ "op" | ours }} <> 'd'
