{#- The changes of the staged records, of each key, time and kind the last. Where something else is known of the keys, a
    delete without a time looks there too, for what its key had come to. -#}
{%- set knows_more = is_log_alone is not defined %}  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY {% include "_key.sql" %}, {{ "from" | ours }}, {{ "kind" | ours }}
      ORDER BY {{ "order" | ours }} DESC
    ) AS {{ "rank" | ours }}
    FROM (
      SELECT s.*,
        {%- if sequence %}
        CASE WHEN s.{{ "kind" | ours }} = 't' THEN struct(CAST(NULL AS {{ sequence_type }}) AS sequence, s.{{ "at" | ours }} AS at) ELSE struct(s.{{ "sequence" | ours }} AS sequence, s.{{ "at" | ours }} AS at) END AS {{ "order" | ours }},
        {%- else %}
        s.{{ "at" | ours }} AS {{ "order" | ours }},
        {%- endif %}
        {%- if asks_rows %}
        CASE WHEN s.{{ "kind" | ours }} = 't' THEN {% if knows_more %}greatest(s.{{ "reached" | ours }}, t.{{ "reached" | ours }}){% else %}s.{{ "reached" | ours }}{% endif %} ELSE s.{{ "axis" | ours }} END AS {{ "from" | ours }}
        {%- else %}
        s.{{ "axis" | ours }} AS {{ "from" | ours }}
        {%- endif %}
      FROM (
{% include "_history_timed.sql" %}
      ) s
      {%- if asks_rows and knows_more %}
      LEFT JOIN (
        SELECT {% for column, _ in keys %}any_value({{ column | quoted }}) AS {{ column | quoted }}, {% endfor %}max({{ "reached" | ours }}) AS {{ "reached" | ours }} FROM (
          SELECT {% for column, _ in keys %}{% include "_change_column.sql" %} AS {{ column | quoted }}, {% endfor %}m.{{ "valid_from" | ours }} AS {{ "reached" | ours }} FROM {{ changes | name }}.{{ branch | quoted }} m LEFT SEMI JOIN ({% include "_history_touched.sql" %}) s ON {% for leaf in leaves %}m.{{ leaf | path }} <=> s.{{ leaf | path }}{{ " AND " if not loop.last }}{% endfor %}
          UNION ALL
          SELECT {% for column, _ in keys %}t.{{ column | quoted }}, {% endfor %}greatest(t.{{ valid_from | quoted }}, t.{{ valid_to | quoted }}) FROM {{ target | name }}.{{ branch | quoted }} t LEFT SEMI JOIN ({% include "_history_touched.sql" %}) s ON {% include "_on_key.sql" %}
        ) GROUP BY {% include "_key.sql" %}
      ) t ON s.{{ "kind" | ours }} = 't' AND {% include "_on_key.sql" %}
      LEFT ANTI JOIN {{ changes | name }}.{{ branch | quoted }} m
      ON s.{{ "kind" | ours }} = 't' AND m.{{ "kind" | ours }} = 't' AND {% for leaf in leaves %}m.{{ leaf | path }} <=> s.{{ leaf | path }} AND {% endfor %}m.{{ "topic" | ours }} = s.{{ "topic" | ours }} AND m.{{ "partition" | ours }} = s.{{ "at" | ours }}.partition
        AND m.{{ "offset" | ours }} = s.{{ "offset" | ours }} AND m.{{ "i" | ours }} = s.{{ "i" | ours }}
      {%- endif %}
    )
  )
  WHERE {{ "rank" | ours }} = 1 AND {{ "from" | ours }} IS NOT NULL
