-- Only keys without a later record up to the table's position; of those, only the ones that have no row get one.
{% include "_merge_last_per_key.sql" %}
WHEN MATCHED AND s.{{ "op" | ours }} = 'd' THEN DELETE
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
