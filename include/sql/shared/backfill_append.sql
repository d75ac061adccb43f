-- A table that is only appended to: of each key that has no row, its last record.
{% include "_merge_last_per_key.sql" %}
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
