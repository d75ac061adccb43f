-- The source table was emptied at offset {{ truncated_at }}: what its records behind that make is all that there is.
{% include "_append.sql" %}
FROM ({% include "_last_per_key.sql" %}
)
WHERE {{ "op" | ours }} <> 'd'
