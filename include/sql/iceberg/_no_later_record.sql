    AND NOT EXISTS (
      SELECT 1 FROM (
        SELECT
        {%- for column, field in keys %} {% include "_staged_key.sql" %} AS {{ column | quoted }}{{ "," if not loop.last or sequence is defined or by_offset is defined }}{% endfor %}
        {%- if sequence is defined %} sequence AS {{ "sequence" | ours }}{{ "," if by_offset is defined }}{% endif %}
        {%- if by_offset is defined %} topic AS {{ "topic" | ours }}, offset AS {{ "offset" | ours }}{% endif %}
        FROM {{ source | name }} VERSION AS OF {{ snapshot_id }}{{ " r" if by_offset is defined }}
        {%- if by_offset is defined %}
        LEFT ANTI JOIN (
          SELECT topic, partition, offset FROM {{ source | name }} VERSION AS OF {{ snapshot_id }} WHERE {% include "_parts.sql" %} AND op <> 'bad'
        ) l ON l.topic = r.topic AND l.partition = r.partition AND l.offset = r.offset
        {%- endif %}
        WHERE batch_number > {{ batch }} AND op <> 'bad'
      ) t
      WHERE {% include "_on_key.sql" %}
      {%- if by_offset is defined and sequence is defined %}
      {#- Of several records of a key the highest sequence counts, wherever it lies, and behind it a delete without one. #}
        AND (t.{{ "topic" | ours }} <> s.{{ "topic" | ours }} OR (t.{{ "offset" | ours }} > coalesce(s.{{ "reset" | ours }}.at.offset, -1) AND (
          coalesce(t.{{ "sequence" | ours }} > s.{{ "last" | ours }}.sequence, false) OR t.{{ "offset" | ours }} > coalesce(s.{{ "last" | ours }}.at.offset, -1)
        )))
      {%- elif by_offset is defined %} AND (t.{{ "topic" | ours }} <> s.{{ "topic" | ours }} OR t.{{ "offset" | ours }} > s.{{ "offset" | ours }}){% endif %}
      {%- if sequence is defined %} AND coalesce(t.{{ "sequence" | ours }} >= s.{{ "last" | ours }}.sequence, true){% endif %}
    )
