    AND NOT EXISTS (
      SELECT 1 FROM (
        SELECT
        {%- for column, field in keys %} {% include "_staged_key.sql" %} AS {{ column | quoted }}{{ "," if not loop.last or sequence is defined or by_offset is defined }}{% endfor %}
        {%- if sequence is defined %} sequence{{ "," if by_offset is defined }}{% endif %}
        {%- if by_offset is defined %} topic, offset{% endif %}
        FROM {{ source | name }} VERSION AS OF {{ snapshot_id }}
        WHERE batch_number > {{ batch }} AND op <> 'bad'
      ) t
      WHERE {% include "_on_key.sql" %}
      {%- if by_offset is defined %} AND (t.topic <> s.{{ "topic" | ours }} OR t.offset > s.{{ "offset" | ours }}){% endif %}
      {%- if sequence is defined %} AND coalesce(t.sequence >= s.{{ "last" | ours }}.sequence, true){% endif %}
    )
