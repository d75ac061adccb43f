-- How many of the rows that the batch writes break the condition; NULL breaks it too.
SELECT count(1) FROM (
{%- if rows == "branch" %}
  SELECT t.* FROM {{ target | name }}.{{ branch | quoted }} t LEFT SEMI JOIN (
{% include "_staged.sql" %}
  ) s ON {% include "_on_key.sql" %}
{%- elif rows == "append" %}
{% include "_staged.sql" %}
{%- elif rows == "delete" %}
{% include "_after_last_delete.sql" %}
{%- else %}
{% include "_last_per_key.sql" %}
{%- endif %}
)
WHERE {% if rows != "branch" %}{{ "op" | ours }} <> 'd' AND {% endif %}NOT coalesce((
{{ condition }}
), false)
