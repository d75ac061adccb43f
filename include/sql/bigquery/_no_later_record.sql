{%- from "_at_least.sql" import columns_at_least %}
  LEFT JOIN (
    SELECT
      {%- for column, field in keys %} {% include "_staged_key.sql" %} AS {{ column | quoted }},{% endfor %}
      {%- if sequence is defined %} sequence AS {{ "sequence" | ours }},{% endif %}
      {%- if by_offset is defined %} topic AS {{ "topic" | ours }}, `offset` AS {{ "offset" | ours }},{% endif %} TRUE AS {{ "is_later" | ours }}
    FROM {{ source | name }}{{ " AS r" if by_offset is defined }}
    WHERE batch_number > {{ batch }} AND op <> 'bad'
    {%- if by_offset is defined %}
      AND NOT EXISTS (
        SELECT 1 FROM {{ source | name }} AS l
        WHERE {% include "_parts.sql" %} AND op <> 'bad'
          AND l.topic = r.topic AND l.`partition` = r.`partition` AND l.`offset` = r.`offset`
      )
    {%- endif %}
  ) AS t
  ON {% include "_on_key.sql" %}
  {%- set mine, theirs = "s." ~ ("last" | ours) ~ ".sequence", "t." ~ ("sequence" | ours) %}
  {%- if by_offset is defined and sequence is defined %}
    {#- Of several records of a key the highest sequence counts, wherever it lies, and behind it a delete without one. COALESCE: a column without a value makes a comparison NULL. #}
    AND (t.{{ "topic" | ours }} <> s.{{ "topic" | ours }} OR (t.{{ "offset" | ours }} > COALESCE(s.{{ "reset" | ours }}.`offset`, -1) AND (
      ({{ theirs }} IS NOT NULL AND NOT COALESCE({{ columns_at_least(mine, theirs, sequence) }}, FALSE)) OR t.{{ "offset" | ours }} > COALESCE(s.{{ "last" | ours }}.`offset`, -1)
    )))
  {%- elif by_offset is defined %}
    AND (t.{{ "topic" | ours }} <> s.{{ "topic" | ours }} OR t.{{ "offset" | ours }} > s.{{ "offset" | ours }})
  {%- endif %}
  {%- if sequence is defined %}
    AND ({{ theirs }} IS NULL OR {{ mine }} IS NULL OR {{ columns_at_least(theirs, mine, sequence) }})
  {%- endif %}
  WHERE t.{{ "is_later" | ours }} IS NULL
