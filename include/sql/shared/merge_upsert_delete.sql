-- The last record of each key decides: a delete removes the row, anything else writes it.
{% include "_merge_last_per_key.sql" %}
WHEN MATCHED AND s.{{ "op" | ours }} = 'd' THEN DELETE
{%- if values %}
WHEN MATCHED THEN {% include "_update.sql" %}
{%- endif %}
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
