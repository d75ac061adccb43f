-- A key's records are folded column by column: each column has the last value that a record gave it, else what the row
-- has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
{%- set reaches = ">" if late else ">=" %}
{%- if groups %}
-- Columns of a sequence group have the values of the record with the group's highest sequence, unless the row's is higher.
{%- endif %}
{%- macro newer(column) -%}
{%- if given[column][0] == "by_sequence" %} AND coalesce(s.{{ given[column][1][0] | quoted }} {{ reaches }} t.{{ given[column][1][0] | quoted }}, true){% endif -%}
{%- endmacro %}
MERGE INTO {{ target | name }}.{{ branch | quoted }} t
USING (
{% include "_folded.sql" %}
) s
ON {% include "_on_key.sql" %}
{%- if flag is none %}
WHEN MATCHED AND s.{{ "ends_deleted" | ours }} THEN DELETE
{%- if values %}
WHEN MATCHED THEN UPDATE SET{% for column in values %}
  t.{{ column | quoted }} = CASE WHEN s.{{ ("given_" ~ loop.index) | ours }}{{ newer(column) }} OR s.{{ "is_reset" | ours }} THEN s.{{ column | quoted }} ELSE t.{{ column | quoted }} END{{ "," if not loop.last }}
{%- endfor %}
{%- endif %}
WHEN NOT MATCHED AND NOT s.{{ "ends_deleted" | ours }} THEN {% include "_insert.sql" %}
{%- else %}
WHEN MATCHED AND NOT s.{{ "is_row" | ours }} THEN UPDATE SET t.{{ flag | quoted }} = true
WHEN MATCHED THEN UPDATE SET{% for column in values %}
  t.{{ column | quoted }} = CASE WHEN s.{{ ("given_" ~ loop.index) | ours }}{{ newer(column) }} THEN s.{{ column | quoted }} ELSE t.{{ column | quoted }} END,
{%- endfor %}
  t.{{ flag | quoted }} = s.{{ "ends_deleted" | ours }}
WHEN NOT MATCHED AND s.{{ "is_row" | ours }} THEN INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}, {% endfor %}
  {%- for column in values %}{{ column | quoted }}, {% endfor %}{{ flag | quoted -}}
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}, {% endfor %}
  {%- for column in values %}s.{{ column | quoted }}, {% endfor %}s.{{ "ends_deleted" | ours -}}
)
{%- endif %}
