{% if part is defined %}
      SELECT * FROM (
      SELECT *, {% if leaves is defined %}FIRST_VALUE({{ part.path | path }} IGNORE NULLS) OVER (
        PARTITION BY {% include "_key.sql" %}
        ORDER BY {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING
      ){% else %}{{ part.path | path }}{% endif %} AS {{ "part" | ours }} FROM (
{% endif %}      SELECT
        {%- for column, field in keys %}
        {% include "_staged_key.sql" %} AS {{ column | quoted }},
        {%- endfor %}
        {%- for column in values %}
        {{ (column | from_value(value_structs)) if value_structs is defined else "value." ~ (column | quoted) }} AS {{ column | quoted }},
        {%- endfor %}
        {%- if sequence is defined %}
        {% if sequence %}sequence AS {{ "sequence" | ours }}, {% endif %}`partition` AS {{ "partition" | ours }}, `timestamp` AS {{ "timestamp" | ours }},
        {%- endif %}
        {%- if groups is defined and groups %}
        `partition` AS {{ "partition" | ours }},
        {%- endif %}
        {%- if kept is defined and kept %}
        kept AS {{ "kept" | ours }},
        {%- endif %}
        {%- if layout | default(none) | partition_unit %}
        {#- BigQuery makes partitions by ingestion of the years 1960 to 2159, and refuses rows for any other #}
        LEAST(GREATEST(partition_time, TIMESTAMP '1960-01-01 00:00:00+00:00'), TIMESTAMP '2159-12-31 23:00:00+00:00') AS {{ "partition_time" | ours }},
        {%- endif %}
        {%- if in_turn is defined %}
        batch_number AS {{ "batch" | ours }},
        {%- endif %}
        op AS {{ "op" | ours }}, topic AS {{ "topic" | ours }}, `offset` AS {{ "offset" | ours }}, i AS {{ "i" | ours }}
{%- if is_live is defined %}
{% include "_live_rows.sql" %}
{%- else %}
      FROM {{ source | name }}
      WHERE {% include "_parts.sql" %} AND op <> 'bad'
{%- if truncated_at is defined %} AND `offset` > {{ truncated_at }}{% endif %}
{%- endif %}
{%- if part is defined %}
      )
      )
      WHERE {% for low, high in part.ranges %}{{ " OR " if not loop.first }}{{ "part" | ours }} BETWEEN {{ low }} AND {{ high }}{% endfor %}
      {%- if part.nulls %}{{ " OR " if part.ranges }}{{ "part" | ours }} IS NULL{% endif %}
{%- endif %}
