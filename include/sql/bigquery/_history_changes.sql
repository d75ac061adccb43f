      SELECT
        {%- for column, _ in keys %}
        t.{{ column | quoted }},
        {%- endfor %}
        STRUCT(TRUE AS {{ "there" | ours }}{% for column in values %}, t.{{ column | quoted }} AS {{ column | quoted }}{% endfor %}) AS {{ "row" | ours }},
        t.{{ "valid_from" | ours }} AS {{ "from" | ours }}, t.{{ "kind" | ours }} AS {{ "kind" | ours }},
        {%- for column in sequence %}
        t.{{ "sequence" | ours }}.{{ column | quoted }} AS {{ ("sequence_" ~ loop.index) | ours }},
        {%- endfor %}
        t.{{ "offset" | ours }} AS {{ "offset" | ours }}, t.{{ "topic" | ours }} AS {{ "topic" | ours }}, t.{{ "partition" | ours }} AS {{ "partition" | ours }}, t.{{ "i" | ours }} AS {{ "i" | ours }}
      FROM {{ changes | name }} AS t
      JOIN (
      {% include "_history_touched.sql" %}
      ) AS s ON {% include "_on_key.sql" %}
      UNION ALL
      SELECT
        {%- for column, _ in keys %}
        t.{{ column | quoted }},
        {%- endfor %}
        STRUCT(TRUE AS {{ "there" | ours }}{% for column in values %}, t.{{ column | quoted }} AS {{ column | quoted }}{% endfor %}),
        IF({{ "end" | ours }} = 'u', t.{{ valid_from | quoted }}, t.{{ valid_to | quoted }}), {{ "end" | ours }},
        {%- for column in sequence %}
        IF({{ "end" | ours }} = 'u', t.{{ column | quoted }}, NULL),
        {%- endfor %}
        CASE WHEN {{ "end" | ours }} = 'u' THEN -2 WHEN t.{{ valid_from | quoted }} = t.{{ valid_to | quoted }} THEN -1 ELSE -3 END, '', 0, 0
      FROM {{ target | name }} AS t
      JOIN (
      {% include "_history_touched.sql" %}
      ) AS s ON {% include "_on_key.sql" %}
      CROSS JOIN UNNEST(['u', 'x']) AS {{ "end" | ours }}
      WHERE t.{{ valid_from | quoted }} IS NOT NULL AND ({{ "end" | ours }} = 'u' OR t.{{ valid_to | quoted }} IS NOT NULL){% include "_bounds.sql" %}
