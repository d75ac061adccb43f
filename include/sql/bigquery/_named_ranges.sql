{#- True for a letter within one of the ranges; many of them are joined, by texts of few bytes each. -#}
EXISTS (
  SELECT 1
  FROM UNNEST([
  {%- for named_topic, parts in ranges | groupby(0) %}
    {{ "STRUCT(" if loop.first else "(" }}{{ named_topic | text }}{{ " AS named_topic" if loop.first }}, {% if ids.get(named_topic) %}{{ ids[named_topic] | text }}{% else %}CAST(NULL AS STRING){% endif %}{{ " AS named_id" if loop.first }}, [
    {%- for _, number, start, end in parts %}
      {%- if loop.first %}STRUCT({{ number }} AS named_partition, {{ start }} AS first_offset, {{ end }} AS end_offset){% else %},({{ number }},{{ start }},{{ end }}){% endif %}
    {%- endfor %}]{{ " AS parts" if loop.first }}){{ "," if not loop.last }}
  {%- endfor %}
  ]) AS named, UNNEST(named.parts) AS part
  WHERE topic = named.named_topic AND `partition` = part.named_partition AND `offset` >= part.first_offset AND `offset` < part.end_offset
