{#- Each key of the batch whose rows on its branch are not those of main: `kind` says what happens to it. A row that is
    flagged as deleted, or is no current version, does not count as there. -#}
{%- set place = "place" | ours -%}
{%- set lives = "lives" | ours -%}
{%- macro read_rows(place_name, number, from_branch) %}
  SELECT
    {%- for leaf in leaves %} t.{{ leaf | path }} AS {{ ("key_" ~ loop.index) | ours }},{% endfor %}
    {{ number }} AS {{ place }},
    {% if flag %}NOT coalesce(t.{{ flag | quoted }}, false){% elif current %}coalesce(t.{{ current | quoted }}, false){% else %}true{% endif %} AS {{ lives }},
    xxhash64({% for hashed in hashed_columns %}{{ hashed }}{{ ", " if not loop.last }}{% endfor %}) AS {{ "hash" | ours }}
    {%- if shows_rows is defined %},
    struct({% for column in columns %}t.{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %}) AS {{ "row" | ours }}
    {%- endif %}
  FROM {{ target | name }}{% if from_branch %}.{{ from_branch | quoted }}{% endif %} t
{%- endmacro -%}
{%- set of_batch -%}
{%- if not truncates %}
  LEFT SEMI JOIN (
{% include "_staged.sql" %}
  ) s ON {% include "_on_key.sql" %}
{%- endif %}
{%- endset -%}
{{ "places" | ours }} AS (
{{- read_rows("before", 1, main) }}{{ of_batch }}
  UNION ALL
{{- read_rows("after", 2, branch) }}{{ of_batch }}
),
{{ "changed" | ours }} AS (
  SELECT *, CASE
    WHEN {{ "rows_1" | ours }} = 0 AND {{ "rows_2" | ours }} > 0 THEN 'inserted'
    WHEN {{ "rows_1" | ours }} > 0 AND {{ "rows_2" | ours }} = 0 THEN 'deleted'
    ELSE 'updated'
  END AS {{ "kind" | ours }} FROM (
    SELECT
      {%- for leaf in leaves %} {{ ("key_" ~ loop.index) | ours }},{% endfor %}
      {%- for number in (1, 2) %}
      count_if({{ place }} = {{ number }} AND {{ lives }}) AS {{ ("rows_" ~ number) | ours }},
      count_if({{ place }} = {{ number }}) AS {{ ("count_" ~ number) | ours }},
      coalesce(sum({{ "hash" | ours }} & 4294967295L) FILTER (WHERE {{ place }} = {{ number }}), 0L) AS {{ ("low_" ~ number) | ours }},
      coalesce(sum(shiftrightunsigned({{ "hash" | ours }}, 32)) FILTER (WHERE {{ place }} = {{ number }}), 0L) AS {{ ("high_" ~ number) | ours }}
      {%- if shows_rows is defined %},
      first({{ "row" | ours }}) FILTER (WHERE {{ place }} = {{ number }} AND {{ lives }}) AS {{ ("row_" ~ number) | ours }}
      {%- endif %}{{ "," if not loop.last }}
      {%- endfor %}
    FROM {{ "places" | ours }}
    GROUP BY {% for leaf in leaves %}{{ ("key_" ~ loop.index) | ours }}{{ ", " if not loop.last }}{% endfor %}
  )
  WHERE {{ "count_1" | ours }} <> {{ "count_2" | ours }} OR {{ "low_1" | ours }} <> {{ "low_2" | ours }} OR {{ "high_1" | ours }} <> {{ "high_2" | ours }}
)
