      SELECT
        {%- for column, field in keys %}
        key{% if field is not none %}.{{ field | quoted }}{% endif %} AS {{ column | quoted }},
        {%- endfor %}
        {%- for column in values %}
        {{ (column | from_value(as_held)) if as_held is defined else "value." ~ (column | quoted) }} AS {{ column | quoted }},
        {%- endfor %}
        {%- if sequence is defined %}
        {% if sequence %}sequence AS {{ "sequence" | ours }}, {% endif %}`partition` AS {{ "partition" | ours }}, `timestamp` AS {{ "timestamp" | ours }},
        {%- endif %}
        {%- if kept is defined and kept %}
        kept AS {{ "kept" | ours }},
        {%- endif %}
        {%- if layout | default(none) | partition_unit %}
        partition_time AS {{ "partition_time" | ours }},
        {%- endif %}
        op AS {{ "op" | ours }}, topic AS {{ "topic" | ours }}, `offset` AS {{ "offset" | ours }}, i AS {{ "i" | ours }}
      FROM {{ source | name }}
      WHERE batch_number = {{ batch }} AND attempt = {{ attempt | text }} AND op <> 'bad'
