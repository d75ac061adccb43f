-- All that is known of the touched keys, laid out in time: what remembers changes, and the rows that are there, which
-- stand in for changes that were forgotten (kind x: where a row ended, and nothing else says why). Of the
-- changes at one time the last counts. A change opens a row unless the one before it says the same; a row ends where the
-- next one opens, or at a delete; a delete without a time of its own ends nothing that came after it. A row of somebody else that has no begin is no version. Only rows that come out otherwise than they stand are written.
MERGE INTO {{ target | name }} AS t
USING (
  SELECT
    {%- for column, _ in keys %} {{ column | quoted }},{% endfor %}
    {%- for column in values %} {{ "last" | ours }}.`row`.{{ column | quoted }} AS {{ column | quoted }},{% endfor %}
    {{ "from" | ours }}, {{ "opens" | ours }},
    IF({{ "ends" | ours }}, {{ "from" | ours }}, MIN(IF({{ "opens" | ours }} OR {{ "ends" | ours }}, {{ "from" | ours }}, NULL)) OVER (
      PARTITION BY {% include "_key.sql" %}
      ORDER BY {{ "from" | ours }} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    )) AS {{ "to" | ours }}
  FROM (
    SELECT *,
      {{ "last" | ours }} IS NOT NULL AND NOT COALESCE(
        {{ "before" | ours }} IS NOT NULL AND NOT {{ "before_ends" | ours }}
        {%- for column in compared %}
        AND {{ column | comparable(("last" | ours) ~ ".`row`") }} IS NOT DISTINCT FROM {{ column | comparable(("before" | ours) ~ ".`row`") }}
        {%- endfor %}
      , FALSE) AS {{ "opens" | ours }}
    FROM (
      SELECT *,
        LAG({{ "last" | ours }}) OVER (PARTITION BY {% include "_key.sql" %} ORDER BY {{ "from" | ours }}) AS {{ "before" | ours }},
        LAG({{ "ends" | ours }}) OVER (PARTITION BY {% include "_key.sql" %} ORDER BY {{ "from" | ours }}) AS {{ "before_ends" | ours }}
      FROM (
{% include "_history_events.sql" %}
      )
      WHERE {{ "last" | ours }} IS NOT NULL OR {{ "ends" | ours }}
    )
  )
) AS s
ON {% include "_on_key.sql" %} AND t.{{ valid_from | quoted }} = s.{{ "from" | ours }}{% include "_bounds.sql" %}
WHEN MATCHED AND NOT s.{{ "opens" | ours }} THEN DELETE
WHEN MATCHED AND NOT (
  t.{{ valid_to | quoted }} IS NOT DISTINCT FROM s.{{ "to" | ours }}
  {%- for column in written %}
  AND {{ column | comparable("t") }} IS NOT DISTINCT FROM {{ column | comparable("s") }}
  {%- endfor %}
) THEN UPDATE SET
  {%- for column in values %}
  t.{{ column | quoted }} = s.{{ column | quoted }},
  {%- endfor %}
  t.{{ valid_to | quoted }} = s.{{ "to" | ours }},
  t.{{ is_current | quoted }} = s.{{ "to" | ours }} IS NULL
WHEN NOT MATCHED AND s.{{ "opens" | ours }} THEN INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}, {% endfor %}
  {%- for column in values %}{{ column | quoted }}, {% endfor %}{{ valid_from | quoted }}, {{ valid_to | quoted }}, {{ is_current | quoted -}}
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}, {% endfor %}
  {%- for column in values %}s.{{ column | quoted }}, {% endfor %}s.{{ "from" | ours }}, s.{{ "to" | ours }}, s.{{ "to" | ours }} IS NULL)
