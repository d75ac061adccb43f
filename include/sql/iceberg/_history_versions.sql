{#- The changes of each key, laid out in time: where a version opens, and where it ends. #}  SELECT
    {%- for column, _ in keys %} {{ column | quoted }},{% endfor %}
    {%- for column in values %} {{ "row" | ours }}.{{ column | quoted }},{% endfor %}
    {{ "from" | ours }}, {{ "opens" | ours }},
    CASE WHEN {{ "ends" | ours }} THEN {{ "from" | ours }} ELSE min(CASE WHEN {{ "opens" | ours }} OR {{ "ends" | ours }} THEN {{ "from" | ours }} END) OVER (
      PARTITION BY {% include "_key.sql" %}
      ORDER BY {{ "from" | ours }} ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) END AS {{ "to" | ours }}
  FROM (
    SELECT *,
      {{ "row" | ours }} IS NOT NULL AND NOT coalesce(
        lag({{ "row" | ours }}) OVER (PARTITION BY {% include "_key.sql" %} ORDER BY {{ "from" | ours }}) IS NOT NULL
        AND NOT lag({{ "ends" | ours }}) OVER (PARTITION BY {% include "_key.sql" %} ORDER BY {{ "from" | ours }})
        {%- for column in compared %}
        AND {{ column | comparable("_tidegate_row") }} <=> lag({{ column | comparable("_tidegate_row") }}) OVER (PARTITION BY {% include "_key.sql" %} ORDER BY {{ "from" | ours }})
        {%- endfor %}
      , false) AS {{ "opens" | ours }}
    FROM (
{% include "_history_events.sql" %}
    )
    WHERE {{ "row" | ours }} IS NOT NULL OR {{ "ends" | ours }}
  )
