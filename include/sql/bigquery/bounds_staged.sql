-- Between which values the keys of a batch lie, and in which partitions the rows would lie that it holds.
SELECT
  {%- for leaf in bounded %}
  MIN({{ leaf | path }}) AS low_{{ loop.index0 }}, MAX({{ leaf | path }}) AS high_{{ loop.index0 }}, COUNTIF({{ leaf | path }} IS NULL) > 0 AS nulls_{{ loop.index0 }},
  {%- endfor %}
  {%- if partition %}
  ARRAY_AGG(DISTINCT {{ partition }} IGNORE NULLS) AS partitions, COUNTIF({{ partition }} IS NULL) > 0 AS outside,
  {%- endif %}
  COUNTIF({{ "op" | ours }} = 'd') AS deletes
FROM (
{% include "_staged.sql" %}
)
