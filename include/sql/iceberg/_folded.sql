{%- macro counts(column) -%}
{{ "counts" | ours }}
{%- if given[column][0] == "not_null" %} AND {{ column | quoted }} IS NOT NULL{% endif %}
{%- if kept and given[column][0] == "not_kept" %} AND NOT coalesce(arrays_overlap({{ "kept" | ours }}, array({% for field in given[column][1] %}{{ field | text }}{{ ", " if not loop.last }}{% endfor %})), false){% endif %}
{%- endmacro %}
{#- what a column has that updates leave alone: the value of the first record, NULL included #}
{%- macro first(column) -%}
min_by({{ column | quoted }}, CASE WHEN {{ "counts" | ours }} THEN {{ "at" | ours }} END)
{%- endmacro %}
{%- macro sequenced(column) -%}
{{ "counts" | ours }} AND {{ given[column][1][0] | quoted }} IS NOT NULL
{%- endmacro %}
  SELECT
    {%- for column, _ in keys %}
    any_value({{ column | quoted }}) AS {{ column | quoted }},
    {%- endfor %}
    {%- for column in values %}
    {%- if given[column][0] == "by_sequence" %}
    CASE WHEN bool_or({{ sequenced(column) }}) THEN max_by({{ column | quoted }}, CASE WHEN {{ sequenced(column) }} THEN struct({{ given[column][1][0] | quoted }} AS sequence, {{ "at" | ours }} AS at) END)
      ELSE {{ first(column) }} END AS {{ column | quoted }},
    coalesce(bool_or({{ sequenced(column) }}), false) AS {{ ("given_" ~ loop.index) | ours }},
    {%- elif given[column][0] == "first" %}
    {{ first(column) }} AS {{ column | quoted }},
    false AS {{ ("given_" ~ loop.index) | ours }},
    {%- else %}
    max_by({{ column | quoted }}, CASE WHEN {{ counts(column) }} THEN {{ "at" | ours }} END) AS {{ column | quoted }},
    coalesce(bool_or({{ counts(column) }}), false) AS {{ ("given_" ~ loop.index) | ours }},
    {%- endif %}
    {%- endfor %}
    max({{ "last_life" | ours }}) IS NOT NULL AS {{ "is_row" | ours }},
    coalesce(max({{ "last_life" | ours }}) > 0, false) AS {{ "is_reset" | ours }},
    max_by({{ "op" | ours }}, {{ "at" | ours }}) = 'd' AS {{ "ends_deleted" | ours }}
  FROM (
    SELECT *, {{ "op" | ours }} <> 'd' AND {{ "life" | ours }} = {{ "last_life" | ours }} AS {{ "counts" | ours }} FROM (
      SELECT *,
        max(CASE WHEN {{ "op" | ours }} <> 'd' THEN {{ "life" | ours }} END) OVER (PARTITION BY {% include "_key.sql" %}) AS {{ "last_life" | ours }}
      FROM (
        SELECT *,
          {%- if not groups %}
          struct({% if in_turn is defined %}{{ "batch" | ours }}, {% endif %}{{ "offset" | ours }}, {{ "i" | ours }}) AS {{ "at" | ours }},
          {%- endif %}
          {%- if not flag %}
          count_if({{ "op" | ours }} = 'd') OVER (
            PARTITION BY {% include "_key.sql" %}
            ORDER BY {% if groups %}{{ "at" | ours }}{% else %}{% if in_turn is defined %}{{ "batch" | ours }}, {% endif %}{{ "offset" | ours }}, {{ "i" | ours }}{% endif %} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS {{ "life" | ours }}
          {%- else %}
          0L AS {{ "life" | ours }}
          {%- endif %}
        FROM (
{% include "_staged_newest.sql" %}
        )
      )
    )
  )
  GROUP BY {% include "_key.sql" %}
