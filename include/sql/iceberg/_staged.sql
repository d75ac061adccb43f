    SELECT
      {%- for column, field in keys %}
      {% include "_staged_key.sql" %} AS {{ column | quoted }},
      {%- endfor %}
      {%- for column in values %}
      {{ expressions[column] if expressions is defined and column in expressions else "value." ~ (column | quoted) }} AS {{ column | quoted }},
      {%- endfor %}
      {%- if sequence is defined %}
      {% if sequence %}sequence AS {{ "sequence" | ours }}, {% endif %}timestamp AS {{ "timestamp" | ours }},
      struct(offset, topic, partition, i) AS {{ "at" | ours }},
      {%- endif %}
      {%- if groups is defined and groups %}
      struct(offset, topic, partition, i) AS {{ "at" | ours }},
      {%- endif %}
      {%- if kept is defined and kept %}
      kept AS {{ "kept" | ours }},
      {%- endif %}
      op AS {{ "op" | ours }}, topic AS {{ "topic" | ours }}, offset AS {{ "offset" | ours }}, i AS {{ "i" | ours }}
    FROM {{ source | name }} VERSION AS OF {{ snapshot_id }}
    WHERE batch_number = {{ batch }} AND attempt = {{ attempt | text }} AND op <> 'bad'
{%- if truncated_at is defined %} AND offset > {{ truncated_at }}{% endif %}
