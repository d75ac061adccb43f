-- A record counts if its sequence is not lower than any before it; a delete without one, if it is the later by offset.
-- newest: the highest sequence of the batch, row_sequence: that of its last upsert that counts; NULL where a remembered
-- delete is higher. A row of the table is compared with both.
{%- from "_at_least.sql" import at_least %}
{%- set row = "row_sequence" | ours %}
{%- set newest = "newest" | ours %}
MERGE INTO {{ target | name }} AS t
USING (
{% include "_last_by_sequence.sql" %}
) AS s
ON {% include "_on_key.sql" %}{% include "_bounds.sql" %}
{%- if soft %}
WHEN MATCHED AND {{ at_least("s." ~ row, "t", sequence) }} THEN UPDATE SET
{%- for column in values %}
  t.{{ column | quoted }} = s.{{ newest ~ "." if column in sequence }}{{ column | quoted }},
{%- endfor %}
  t.{{ flag | quoted }} = s.{{ "ends_deleted" | ours }}
WHEN MATCHED AND {{ at_least("s." ~ newest, "t", sequence) }} THEN UPDATE SET
{%- for column in sequence %}
  t.{{ column | quoted }} = s.{{ newest }}.{{ column | quoted }},
{%- endfor %}
  t.{{ flag | quoted }} = TRUE
WHEN MATCHED AND s.{{ "is_reset" | ours }} THEN UPDATE SET t.{{ flag | quoted }} = TRUE
WHEN NOT MATCHED AND s.{{ row }} IS NOT NULL THEN {% include "_insert.sql" %}
{%- else %}
{%- if deletes %}
WHEN MATCHED AND IF({{ at_least("s." ~ newest, "t", sequence) }}, s.{{ "ends_deleted" | ours }}, s.{{ "is_reset" | ours }}) THEN DELETE
{%- endif %}
WHEN MATCHED AND {{ at_least("s." ~ newest, "t", sequence) }} THEN {% include "_update.sql" %}
{%- with newest = undefined %}
WHEN NOT MATCHED AND s.{{ "newest" | ours }} IS NOT NULL AND NOT s.{{ "ends_deleted" | ours }} THEN {% include "_insert.sql" %}
{%- endwith %}
{%- endif %}
