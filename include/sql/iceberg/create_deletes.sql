CREATE TABLE IF NOT EXISTS {{ table | name }} (
{%- for column in columns %}
  {{ column.name | quoted }} {{ column.type }}{{ "," if not loop.last }}
{%- endfor %}
)
USING iceberg
TBLPROPERTIES (
  'format-version' = '2',
{%- for key, value in own.properties.items() %}
  {{ key | text }} = {{ value | text }},
{%- endfor %}
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '10'
)
