-- Deletes were left out while staging, before the last record of each key was chosen.
{% include "_merge_last_per_key.sql" %}
{%- if values %}
WHEN MATCHED THEN {% include "_update.sql" %}
{%- endif %}
WHEN NOT MATCHED THEN {% include "_insert.sql" %}
