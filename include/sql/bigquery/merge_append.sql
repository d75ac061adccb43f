-- Every record is a row.
{% include "_append.sql" %}
FROM (
{% include "_staged.sql" %}
)
WHERE {{ "op" | ours }} <> 'd'
