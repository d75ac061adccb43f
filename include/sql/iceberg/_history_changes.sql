      SELECT
        {%- for column, _ in keys %}
        {% include "_change_column.sql" %} AS {{ column | quoted }},
        {%- endfor %}
        struct(true AS {{ "there" | ours }}{% for column in values %}, {% include "_change_column.sql" %} AS {{ column | quoted }}{% endfor %}) AS {{ "row" | ours }},
        m.{{ "valid_from" | ours }} AS {{ "from" | ours }}, m.{{ "kind" | ours }} AS {{ "kind" | ours }},
        struct(
          {{ "m." ~ ("sequence" | ours) if sequence else "true" }} AS sequence,
          struct(m.{{ "offset" | ours }} AS offset, m.{{ "topic" | ours }} AS topic, m.{{ "partition" | ours }} AS partition, m.{{ "i" | ours }} AS i) AS at
        ) AS {{ "order" | ours }}
      {%- if is_log_alone is defined %}
      FROM (
        SELECT *, {{ "from" | ours }} AS {{ "valid_from" | ours }}, {{ "at" | ours }}.partition AS {{ "partition" | ours }} FROM (
{% include "_history_staged.sql" %}
        )
      ) m
      {%- else %}
      FROM {{ changes | name }}.{{ branch | quoted }} m LEFT SEMI JOIN ({% include "_history_touched.sql" %}) s ON {% for leaf in leaves %}m.{{ leaf | path }} <=> s.{{ leaf | path }}{{ " AND " if not loop.last }}{% endfor %}
      UNION ALL
      SELECT
        {%- for column, _ in keys %}
        t.{{ column | quoted }},
        {%- endfor %}
        struct(true AS {{ "there" | ours }}{% for column in values %}, t.{{ column | quoted }}{% endfor %}),
        CASE WHEN w.kind = 'u' THEN t.{{ valid_from | quoted }} ELSE t.{{ valid_to | quoted }} END,
        w.kind,
        struct(
          {% if sequence %}CASE WHEN w.kind = 'u' THEN {% include "_row_sequence.sql" %} END{% else %}true{% endif %} AS sequence,
          struct(CASE WHEN w.kind = 'u' THEN -2L WHEN t.{{ valid_from | quoted }} <=> t.{{ valid_to | quoted }} THEN -1L ELSE -3L END AS offset, '' AS topic, 0 AS partition, 0L AS i) AS at
        )
      FROM {{ target | name }}.{{ branch | quoted }} t LEFT SEMI JOIN ({% include "_history_touched.sql" %}) s ON {% include "_on_key.sql" %}
      CROSS JOIN (SELECT explode(array('u', 'x')) AS kind) w
      WHERE t.{{ valid_from | quoted }} IS NOT NULL AND (w.kind = 'u' OR t.{{ valid_to | quoted }} IS NOT NULL)
      {%- endif %}
