-- Every record is a row.
{% include "_into.sql" %}
FROM (
{% include "_staged.sql" %}
)
WHERE {{ "op" | ours }} <> 'd'
