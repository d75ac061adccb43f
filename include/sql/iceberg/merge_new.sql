-- None of the keys is in the snapshot that the branch was cut from: the last record of each is a row, a delete is nothing.
{% include "_into.sql" %}
FROM (
{% include "_last_per_key.sql" %}
)
WHERE {{ "op" | ours }} <> 'd'
