{#- Of all changes of a key at one time one row: the last upsert, and whether something ended it. `level` orders the changes at
    one time, `place` those of a key by the log alone. -#}
{%- set at = [("offset" | ours), ("topic" | ours), ("partition" | ours), ("i" | ours)] | join(", ") %}
    SELECT *,
      ({{ "deleted" | ours }} IS NOT NULL AND COALESCE({{ "deleted" | ours }} > {{ "last" | ours }}.level, TRUE))
      OR ({{ "cut" | ours }} IS NOT NULL AND COALESCE({{ "cut" | ours }} > LAST_VALUE({{ "last" | ours }}.place IGNORE NULLS) OVER (
        PARTITION BY {% include "_key.sql" %}
        ORDER BY {{ "from" | ours }} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ), TRUE))
      OR ({{ "deleted" | ours }} IS NULL AND {{ "cut" | ours }} IS NULL AND COALESCE({{ "ended" | ours }} > COALESCE({{ "last" | ours }}.log_offset, -9), FALSE)) AS {{ "ends" | ours }}
    FROM (
      SELECT
        {%- for column, _ in keys %}
        ANY_VALUE({{ ("record" | ours) ~ "." ~ (column | quoted) }}) AS {{ column | quoted }},
        {%- endfor %}
        {{ ("record" | ours) ~ "." ~ ("from" | ours) }} AS {{ "from" | ours }},
        ARRAY_AGG(
          IF({{ "kind" | ours }} = 'u', STRUCT({{ "row" | ours }} AS `row`, {{ "level" | ours }} AS level, {{ "place" | ours }} AS place, {{ "offset" | ours }} AS log_offset), NULL)
          ORDER BY {{ "kind" | ours }} = 'u' DESC, {{ "level" | ours }} DESC LIMIT 1
        )[OFFSET(0)] AS {{ "last" | ours }},
        MAX(IF({{ "kind" | ours }} = 'd', {{ "level" | ours }}, NULL)) AS {{ "deleted" | ours }},
        MAX(IF({{ "kind" | ours }} = 't', {{ "place" | ours }}, NULL)) AS {{ "cut" | ours }},
        MAX(IF({{ "kind" | ours }} = 'x', {{ "offset" | ours }}, NULL)) AS {{ "ended" | ours }}
      FROM (
        SELECT *,
          DENSE_RANK() OVER (PARTITION BY {% include "_key.sql" %}, {{ "from" | ours }} ORDER BY {% for column in sequence %}{{ ("sequence_" ~ loop.index) | ours }}, {% endfor %}{{ at }}) AS {{ "level" | ours }},
          DENSE_RANK() OVER (PARTITION BY {% include "_key.sql" %} ORDER BY {{ at }}) AS {{ "place" | ours }}
        FROM (
{% include "_history_changes.sql" %}
        )
      ) AS {{ "record" | ours }}
      GROUP BY {% with of = ("record" | ours) ~ "." %}{% include "_key.sql" %}{% endwith %}, {{ ("record" | ours) ~ "." ~ ("from" | ours) }}
    )
