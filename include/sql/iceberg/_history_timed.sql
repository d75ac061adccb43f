{#- Each staged record with its time, its kind, and the highest time that its key had reached with it. #}        SELECT *,
          max({{ "axis" | ours }}) OVER (
            PARTITION BY {% include "_key.sql" %}
            ORDER BY {{ "at" | ours }} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS {{ "reached" | ours }}
        FROM (
          SELECT *,
            {%- if sequence %}
            coalesce({{ "sequence" | ours }}.{{ sequence[0] | quoted }}, CASE WHEN {{ "op" | ours }} = 'd' THEN CAST({{ ("timestamp" | ours) if is_time else "NULL" }} AS {{ axis_type }}) END) AS {{ "axis" | ours }},
            CASE WHEN {{ "op" | ours }} <> 'd' THEN 'u' WHEN {{ "sequence" | ours }}.{{ sequence[0] | quoted }} IS NULL THEN 't' ELSE 'd' END AS {{ "kind" | ours }}
            {%- else %}
            {{ "timestamp" | ours }} AS {{ "axis" | ours }},
            CASE WHEN {{ "op" | ours }} = 'd' THEN 'd' ELSE 'u' END AS {{ "kind" | ours }}
            {%- endif %}
          FROM (
{% include "_staged.sql" %}
          )
        )
