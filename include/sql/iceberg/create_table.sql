CREATE TABLE IF NOT EXISTS {{ table | name }} (
{%- for column in columns %}
  {{ column.name | quoted }} {{ column.type }}{{ " NOT NULL" if not column.nullable or column.name in identifiers }}{{ "," if not loop.last }}
{%- endfor %}
)
USING iceberg
{%- if partition_by %}
PARTITIONED BY ({{ partition_by | join(", ") }})
{%- endif %}
TBLPROPERTIES (
{%- for key, value in {"format-version": format_version | string, "write.merge.mode": "merge-on-read", "write.update.mode": "merge-on-read", "write.delete.mode": "merge-on-read", "write.metadata.delete-after-commit.enabled": "true"}.items() if key not in properties %}
  {{ key | text }} = {{ value | text }},
{%- endfor %}
  'tidegate.created-by' = {{ pipeline | text }}
{%- for key, value in properties.items() %},
  {{ key | text }} = {{ value | text }}
{%- endfor %}
)
