    SELECT *,
      CASE WHEN {{ "deleted" | ours }} IS NULL THEN false ELSE coalesce({{ "deleted" | ours }} > {{ "upserted" | ours }}, true) END
      OR CASE WHEN {{ "cut" | ours }} IS NULL THEN false ELSE coalesce({{ "cut" | ours }} > last_value({{ "upserted" | ours }}.at, true) OVER (
        PARTITION BY {% include "_key.sql" %}
        ORDER BY {{ "from" | ours }} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ), true) END
      OR {{ "deleted" | ours }} IS NULL AND {{ "cut" | ours }} IS NULL AND coalesce({{ "ended" | ours }} > coalesce({{ "upserted" | ours }}.at.offset, -9), false) AS {{ "ends" | ours }}
    FROM (
      SELECT
        {%- for column, _ in keys %}
        any_value({{ column | quoted }}) AS {{ column | quoted }},
        {%- endfor %}
        {{ "from" | ours }},
        max_by({{ "row" | ours }}, CASE WHEN {{ "kind" | ours }} = 'u' THEN {{ "order" | ours }} END) AS {{ "row" | ours }},
        max(CASE WHEN {{ "kind" | ours }} = 'u' THEN {{ "order" | ours }} END) AS {{ "upserted" | ours }},
        max(CASE WHEN {{ "kind" | ours }} = 'd' THEN {{ "order" | ours }} END) AS {{ "deleted" | ours }},
        max(CASE WHEN {{ "kind" | ours }} = 't' THEN {{ "order" | ours }}.at END) AS {{ "cut" | ours }},
        max(CASE WHEN {{ "kind" | ours }} = 'x' THEN {{ "order" | ours }}.at.offset END) AS {{ "ended" | ours }}
      FROM (
{% include "_history_changes.sql" %}
      )
      GROUP BY {% include "_key.sql" %}, {{ "from" | ours }}
    )
