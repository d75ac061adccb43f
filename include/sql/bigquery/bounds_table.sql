-- In which partitions the rows of a batch's keys lie now, and how far the pipelines have come that write the table.
SELECT
  ARRAY_AGG(DISTINCT {{ partition }} IGNORE NULLS) AS partitions,
  COUNTIF({{ partition }} IS NULL) > 0 AS outside,
  (SELECT SUM(version) FROM {{ positions | name }}) AS versions
FROM {{ target | name }} AS t
JOIN (
  SELECT {% for column, _ in keys %}ANY_VALUE({{ column | quoted }}) AS {{ column | quoted }}{{ ", " if not loop.last }}{% endfor %} FROM (
{% include "_staged.sql" %}
  ) AS {{ "record" | ours }}
  GROUP BY {% with of = ("record" | ours) ~ "." %}{% include "_key.sql" %}{% endwith %}
) AS s
ON {% include "_on_key.sql" %}
WHERE TRUE{% include "_bounds.sql" %}
