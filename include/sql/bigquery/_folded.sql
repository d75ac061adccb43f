{%- macro counts(column) -%}
{{ "counts" | ours }}
{%- if given[column][0] == "not_null" %} AND {{ column | quoted }} IS NOT NULL{% endif %}
{%- if kept and given[column][0] == "not_kept" %}{% for field in given[column][1] %} AND NOT COALESCE({{ field | text }} IN UNNEST({{ "kept" | ours }}), FALSE){% endfor %}{% endif %}
{%- endmacro %}
{%- macro at(direction) -%}
{% if in_turn is defined %}{{ "batch" | ours }}{{ direction }}, {% endif %}{{ "offset" | ours }}{{ direction }}, {% if groups %}{{ "topic" | ours }}{{ direction }}, {{ "partition" | ours }}{{ direction }}, {% endif %}{{ "i" | ours }}{{ direction }}
{%- endmacro %}
{%- macro latest(value, condition) -%}
ARRAY_AGG(IF({{ condition }}, STRUCT({{ value }} AS v), NULL) ORDER BY {{ condition }} DESC, {{ at(" DESC") }} LIMIT 1)[OFFSET(0)].v
{%- endmacro %}
{#- what a column has that updates leave alone: the value of the first record, NULL included #}
{%- macro first(column) -%}
ARRAY_AGG(IF({{ "counts" | ours }}, STRUCT({{ column | quoted }} AS v), NULL) ORDER BY {{ "counts" | ours }} DESC, {{ at("") }} LIMIT 1)[OFFSET(0)].v
{%- endmacro %}
{%- macro sequenced(column) -%}
COALESCE({{ "counts" | ours }} AND {{ given[column][1][0] | quoted }} IS NOT NULL, FALSE)
{%- endmacro %}  SELECT
    {%- for column, _ in keys %}
    ANY_VALUE({{ column | quoted }}) AS {{ column | quoted }},
    {%- endfor %}
    {%- for column in values %}
    {%- if given[column][0] == "by_sequence" %}
    IF(
      LOGICAL_OR({{ sequenced(column) }}),
      ARRAY_AGG(IF({{ sequenced(column) }}, STRUCT({{ column | quoted }} AS v), NULL) ORDER BY {{ sequenced(column) }} DESC, {{ given[column][1][0] | quoted }} DESC, {{ at(" DESC") }} LIMIT 1)[OFFSET(0)].v,
      {{ first(column) }}
    ) AS {{ column | quoted }},
    LOGICAL_OR({{ sequenced(column) }}) AS {{ ("given_" ~ loop.index) | ours }},
    {%- elif given[column][0] == "first" %}
    {{ first(column) }} AS {{ column | quoted }},
    FALSE AS {{ ("given_" ~ loop.index) | ours }},
    {%- else %}
    {{ latest(column | quoted, counts(column)) }} AS {{ column | quoted }},
    COALESCE(LOGICAL_OR({{ counts(column) }}), FALSE) AS {{ ("given_" ~ loop.index) | ours }},
    {%- endif %}
    {%- endfor %}
    {%- if layout | default(none) | partition_unit %}
    MAX({{ "partition_time" | ours }}) AS {{ "partition_time" | ours }},
    {%- endif %}
    MAX({{ "last_life" | ours }}) IS NOT NULL AS {{ "is_row" | ours }},
    COALESCE(MAX({{ "last_life" | ours }}) > 0, FALSE) AS {{ "is_reset" | ours }},
    ARRAY_AGG({{ "op" | ours }} ORDER BY {{ at(" DESC") }} LIMIT 1)[OFFSET(0)] = 'd' AS {{ "ends_deleted" | ours }}
  FROM (
    SELECT *, {{ "op" | ours }} <> 'd' AND {{ "life" | ours }} = {{ "last_life" | ours }} AS {{ "counts" | ours }} FROM (
      SELECT *, MAX(IF({{ "op" | ours }} <> 'd', {{ "life" | ours }}, NULL)) OVER (PARTITION BY {% include "_key.sql" %}) AS {{ "last_life" | ours }}
      FROM (
        SELECT *,
          {%- if not flag %}
          COUNTIF({{ "op" | ours }} = 'd') OVER (
            PARTITION BY {% include "_key.sql" %}
            ORDER BY {{ at("") }} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS {{ "life" | ours }}
          {%- else %}
          0 AS {{ "life" | ours }}
          {%- endif %}
        FROM (
{% include "_staged_newest.sql" %}
        )
      )
    )
  ) AS {{ "record" | ours }}
  {%- with of = ("record" | ours) ~ "." %}
  GROUP BY {% include "_key.sql" %}
  {%- endwith %}
