    SELECT
      {%- for column, field in keys %}
      {% include "_staged_key.sql" %} AS {{ column | quoted }},
      {%- endfor %}
      {%- for column in values %}
      {{ expressions[column] if expressions is defined and column in expressions else "value." ~ (column | quoted) }} AS {{ column | quoted }},
      {%- endfor %}
      {%- if sequence is defined %}
      {% if sequence %}sequence AS {{ "sequence" | ours }}, {% endif %}timestamp AS {{ "timestamp" | ours }},
      struct({% if in_turn is defined %}batch_number, {% endif %}offset, topic, partition, i) AS {{ "at" | ours }},
      {%- endif %}
      {%- if groups is defined and groups %}
      struct({% if in_turn is defined %}batch_number, {% endif %}offset, topic, partition, i) AS {{ "at" | ours }},
      {%- endif %}
      {%- if kept is defined and kept %}
      kept AS {{ "kept" | ours }},
      {%- endif %}
      {%- if in_turn is defined %}
      batch_number AS {{ "batch" | ours }},
      {%- endif %}
      op AS {{ "op" | ours }}, topic AS {{ "topic" | ours }}, offset AS {{ "offset" | ours }}, i AS {{ "i" | ours }}
{%- if is_live is defined %}
{% include "_live_rows.sql" %}
{%- else %}
    FROM {{ source | name }} VERSION AS OF {{ snapshot_id }}
    WHERE {% include "_parts.sql" %} AND op <> 'bad'
{%- if truncated_at is defined %} AND offset > {{ truncated_at }}{% endif %}
{%- endif %}
