-- How many of the rows that the batch has written break the condition; NULL breaks it too.
SELECT COUNT(*) FROM (
{%- if rows == "append" %}
{% include "_staged.sql" %}
{%- elif rows == "delete" %}
{% include "_after_last_delete.sql" %}
{%- elif rows == "branch" %}
  SELECT t.* FROM {{ target | name }} AS t
  JOIN (
    SELECT {% for column, _ in keys %}ANY_VALUE({{ column | quoted }}) AS {{ column | quoted }}{{ ", " if not loop.last }}{% endfor %} FROM (
{% include "_staged.sql" %}
    ) AS {{ "record" | ours }}
    GROUP BY {% with of = ("record" | ours) ~ "." %}{% include "_key.sql" %}{% endwith %}
  ) AS s ON {% include "_on_key.sql" %}
{%- else %}
{% include "_last_per_key.sql" %}
{%- endif %}
)
WHERE {% if rows != "branch" %}{{ "op" | ours }} <> 'd' AND {% endif %}NOT COALESCE((
{{ condition }}
), FALSE)
