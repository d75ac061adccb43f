-- One row for each change: what a key was from when on, or when it was deleted. Facts of the log, so that writing them
-- again, or too early, does no harm. A delete that tells no time of its own (kind t) ends what its key had come to.
MERGE INTO {{ changes | name }} t
USING (
  SELECT * FROM (
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
        CASE WHEN s.{{ "kind" | ours }} = 't' THEN greatest(s.{{ "reached" | ours }}, t.{{ "reached" | ours }}) ELSE s.{{ "axis" | ours }} END AS {{ "from" | ours }}
        {%- else %}
        s.{{ "axis" | ours }} AS {{ "from" | ours }}
        {%- endif %}
      FROM (
        SELECT *,
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
      ) s
      {%- if asks_rows %}
      LEFT JOIN (
        SELECT {% for column, _ in keys %}any_value({{ column | quoted }}) AS {{ column | quoted }}, {% endfor %}max({{ "reached" | ours }}) AS {{ "reached" | ours }} FROM (
          SELECT {% for column, _ in keys %}{% include "_change_column.sql" %} AS {{ column | quoted }}, {% endfor %}m.{{ "valid_from" | ours }} AS {{ "reached" | ours }} FROM {{ changes | name }} m LEFT SEMI JOIN ({% include "_history_touched.sql" %}) s ON {% for leaf in leaves %}m.{{ leaf | path }} <=> s.{{ leaf | path }}{{ " AND " if not loop.last }}{% endfor %}
          UNION ALL
          SELECT {% for column, _ in keys %}t.{{ column | quoted }}, {% endfor %}greatest(t.{{ valid_from | quoted }}, t.{{ valid_to | quoted }}) FROM {{ target | name }}.{{ branch | quoted }} t LEFT SEMI JOIN ({% include "_history_touched.sql" %}) s ON {% include "_on_key.sql" %}
        ) GROUP BY {% include "_key.sql" %}
      ) t ON s.{{ "kind" | ours }} = 't' AND {% include "_on_key.sql" %}
      LEFT ANTI JOIN {{ changes | name }} m
      ON s.{{ "kind" | ours }} = 't' AND m.{{ "kind" | ours }} = 't' AND m.{{ "topic" | ours }} = s.{{ "topic" | ours }} AND m.{{ "partition" | ours }} = s.{{ "at" | ours }}.partition
        AND m.{{ "offset" | ours }} = s.{{ "offset" | ours }} AND m.{{ "i" | ours }} = s.{{ "i" | ours }}
      {%- endif %}
    )
  )
  WHERE {{ "rank" | ours }} = 1 AND {{ "from" | ours }} IS NOT NULL
) s
ON {% include "_on_key.sql" %} AND t.{{ "valid_from" | ours }} = s.{{ "from" | ours }} AND t.{{ "kind" | ours }} = s.{{ "kind" | ours }}
WHEN MATCHED AND s.{{ "order" | ours }} > {% if sequence %}struct(CASE WHEN t.{{ "kind" | ours }} <> 't' THEN t.{{ "sequence" | ours }} END AS sequence, {% endif %}struct(t.{{ "offset" | ours }} AS offset, t.{{ "topic" | ours }} AS topic, t.{{ "partition" | ours }} AS partition, t.{{ "i" | ours }} AS i){% if sequence %} AS at){% endif %} THEN UPDATE SET
  {%- for column in values %}
  t.{{ column | quoted }} = s.{{ column | quoted }},
  {%- endfor %}
  {%- if sequence %}
  t.{{ "sequence" | ours }} = s.{{ "sequence" | ours }},
  {%- endif %}
  t.{{ "topic" | ours }} = s.{{ "topic" | ours }},
  t.{{ "partition" | ours }} = s.{{ "at" | ours }}.partition,
  t.{{ "offset" | ours }} = s.{{ "offset" | ours }},
  t.{{ "i" | ours }} = s.{{ "i" | ours }},
  t.{{ "timestamp" | ours }} = s.{{ "timestamp" | ours }}
WHEN NOT MATCHED THEN INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}, {% endfor %}
  {%- for column in values %}{{ column | quoted }}, {% endfor %}
  {%- if sequence %}{{ "sequence" | ours }}, {% endif %}{{ "valid_from" | ours }}, {{ "kind" | ours }}, {{ "topic" | ours }}, {{ "partition" | ours }}, {{ "offset" | ours }}, {{ "i" | ours }}, {{ "timestamp" | ours -}}
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}, {% endfor %}
  {%- for column in values %}s.{{ column | quoted }}, {% endfor %}
  {%- if sequence %}s.{{ "sequence" | ours }}, {% endif %}s.{{ "from" | ours }}, s.{{ "kind" | ours }}, s.{{ "topic" | ours }}, s.{{ "at" | ours }}.partition, s.{{ "offset" | ours }}, s.{{ "i" | ours }}, s.{{ "timestamp" | ours }})
