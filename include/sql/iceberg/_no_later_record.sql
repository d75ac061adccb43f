    AND NOT EXISTS (
      SELECT 1 FROM (
        SELECT
        {%- for column, field in keys %} key.{{ field | quoted }} AS {{ column | quoted }}{{ "," if not loop.last or sequence is defined }}{% endfor %}
        {%- if sequence is defined %} sequence{% endif %}
        FROM {{ source | name }} VERSION AS OF {{ snapshot_id }}
        WHERE batch_number > {{ batch }} AND op <> 'bad'
      ) t
      WHERE {% include "_on_key.sql" %}
      {%- if sequence is defined %} AND coalesce(t.sequence >= s.{{ "last" | ours }}.sequence, true){% endif %}
    )
