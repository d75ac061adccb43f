-- A record counts if its sequence is not lower than any before it; a delete without one, if it is the later by offset.
-- newest: the highest sequence of the batch, row_sequence: that of its last upsert that counts; NULL where a remembered
-- delete is higher. A row of the table is compared with both.
{%- set row = "row_sequence" | ours %}
{%- set newest = "newest" | ours %}
MERGE INTO {{ target | name }}.{{ branch | quoted }} t
USING (
{% include "_last_by_sequence.sql" %}
) s
ON {% include "_on_key.sql" %}
{%- if soft %}
WHEN MATCHED AND s.{{ row }} >= {% include "_row_sequence.sql" %} THEN UPDATE SET
{%- for column in values %}
  t.{{ column | quoted }} = s.{{ newest ~ "." if column in sequence }}{{ column | quoted }},
{%- endfor %}
  t.{{ flag | quoted }} = s.{{ "ends_deleted" | ours }}
WHEN MATCHED AND s.{{ newest }} >= {% include "_row_sequence.sql" %} THEN UPDATE SET
{%- for column in sequence %}
  t.{{ column | quoted }} = s.{{ newest }}.{{ column | quoted }},
{%- endfor %}
  t.{{ flag | quoted }} = true
WHEN MATCHED AND s.{{ "is_reset" | ours }} THEN UPDATE SET t.{{ flag | quoted }} = true
WHEN NOT MATCHED AND s.{{ row }} IS NOT NULL THEN INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}, {% endfor %}
  {%- for column in values %}{{ column | quoted }}, {% endfor %}{{ flag | quoted -}}
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}, {% endfor %}
  {%- for column in values %}s.{{ newest ~ "." if column in sequence }}{{ column | quoted }}, {% endfor %}s.{{ "ends_deleted" | ours -}}
)
{%- else %}
{%- if deletes %}
WHEN MATCHED AND CASE WHEN s.{{ newest }} >= {% include "_row_sequence.sql" %}
  THEN s.{{ "ends_deleted" | ours }} ELSE s.{{ "is_reset" | ours }} END THEN DELETE
{%- endif %}
WHEN MATCHED AND s.{{ newest }} >= {% include "_row_sequence.sql" %} THEN {% include "_update.sql" %}
WHEN NOT MATCHED AND s.{{ newest }} IS NOT NULL AND NOT s.{{ "ends_deleted" | ours }} THEN {% include "_insert.sql" %}
{%- endif %}
