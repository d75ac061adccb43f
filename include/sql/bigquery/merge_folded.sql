-- A key's records are folded column by column: each column has the last value that a record gave it, else what the row
-- has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
{%- set reaches = ">" if late else ">=" %}
{%- if groups %}
-- Columns of a sequence group have the values of the record with the group's highest sequence, unless the row's is higher.
{%- endif %}
{%- macro newer(column) -%}
{%- if given[column][0] == "by_sequence" %} AND COALESCE(s.{{ given[column][1][0] | quoted }} {{ reaches }} t.{{ given[column][1][0] | quoted }}, TRUE){% endif -%}
{%- endmacro %}
MERGE INTO {{ target | name }} AS t
USING (
{% include "_folded.sql" %}
) AS s
ON {% include "_on_key.sql" %}{% include "_bounds.sql" %}
{%- if flag is none %}
WHEN MATCHED AND s.{{ "ends_deleted" | ours }} THEN DELETE
{%- if values %}
WHEN MATCHED THEN UPDATE SET{% for column in values %}
  t.{{ column | quoted }} = IF(s.{{ ("given_" ~ loop.index) | ours }}{{ newer(column) }} OR s.{{ "is_reset" | ours }}, s.{{ column | quoted }}, t.{{ column | quoted }}){{ "," if not loop.last }}
{%- endfor %}
{%- endif %}
WHEN NOT MATCHED AND NOT s.{{ "ends_deleted" | ours }} THEN {% include "_insert.sql" %}
{%- else %}
WHEN MATCHED AND NOT s.{{ "is_row" | ours }} THEN UPDATE SET t.{{ flag | quoted }} = TRUE
WHEN MATCHED THEN UPDATE SET{% for column in values %}
  t.{{ column | quoted }} = IF(s.{{ ("given_" ~ loop.index) | ours }}{{ newer(column) }}, s.{{ column | quoted }}, t.{{ column | quoted }}),
{%- endfor %}
  t.{{ flag | quoted }} = s.{{ "ends_deleted" | ours }}
WHEN NOT MATCHED AND s.{{ "is_row" | ours }} THEN {% include "_insert.sql" %}
{%- endif %}
