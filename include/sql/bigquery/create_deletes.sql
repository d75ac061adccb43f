CREATE TABLE IF NOT EXISTS {{ table | name }} (
{%- for column in columns %}
  {{ column.name | quoted }} {{ column.type | type }}{{ "," if not loop.last }}
{%- endfor %}
)
OPTIONS (labels = [{% include "_mark.sql" %}])
