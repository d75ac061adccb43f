  SELECT * FROM (
    SELECT *,
      row_number() OVER (
        PARTITION BY {% include "_key.sql" %}
        ORDER BY {{ "is_row" | ours }} DESC, {{ "at" | ours }} DESC
      ) AS {{ "rank" | ours }}
    FROM (
      SELECT *,
        {{ "op" | ours }} <> 'd' AND coalesce({{ "sequence" | ours }} >= {{ "before" | ours }}, true) AS {{ "is_row" | ours }}
      FROM (
        SELECT *,
          max({{ "sequence" | ours }}) OVER (
            PARTITION BY {% include "_key.sql" %}
            ORDER BY {{ "at" | ours }} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
          ) AS {{ "before" | ours }},
          max(CASE WHEN {{ "sequence" | ours }} IS NOT NULL THEN named_struct(
            'sequence', {{ "sequence" | ours }}, 'at', {{ "at" | ours }}, 'timestamp', {{ "timestamp" | ours }}, 'op', {{ "op" | ours }}
          ) END) OVER (PARTITION BY {% include "_key.sql" %}) AS {{ "last" | ours }},
          max(CASE WHEN {{ "sequence" | ours }} IS NULL THEN named_struct(
            'at', {{ "at" | ours }}, 'timestamp', {{ "timestamp" | ours }}
          ) END) OVER (PARTITION BY {% include "_key.sql" %}) AS {{ "reset" | ours }}
        FROM (
{% include "_staged.sql" %}
        )
      )
    )
  ){{ " s" if guarded is defined }}
  WHERE {{ "rank" | ours }} = 1
  {%- if guarded is defined %}
{% include "_no_later_record.sql" %}
  {%- endif %}
