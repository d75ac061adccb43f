CREATE TABLE IF NOT EXISTS {{ table | name }} (
{%- for column in columns %}
  {{ column.name | quoted }} {{ column | column_type }}{{ "," if not loop.last }}
{%- endfor %}
)
{%- if partition_by %}
PARTITION BY {{ partition_by | partition(columns) }}
{%- endif %}
{%- if cluster_by %}
CLUSTER BY {% for column in cluster_by %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %}
{%- endif %}
{%- for option in properties | options %}
{{- "\nOPTIONS (" if loop.first }}
  {{ option }}{{ "," if not loop.last else "\n)" }}
{%- endfor %}
