-- The first changed keys with their rows before and after, and how often each column changes in an updated row.
{%- set shows_rows = true %}
{%- set before = "row_1" | ours %}
{%- set after = "row_2" | ours %}
{%- set kind = "kind" | ours %}
WITH {% include "_changed.sql" %}
SELECT to_json(named_struct(
  'columns', (
    SELECT filter(array(
      {%- for name, type in typed_columns %}
      named_struct('column', {{ name | text }}, 'rows', count_if({{ kind }} = 'updated' AND NOT {{ (name, type) | comparable(before) }} <=> {{ (name, type) | comparable(after) }})){{ "," if not loop.last }}
      {%- endfor %}
    ), entry -> entry.rows > 0) FROM {{ "changed" | ours }}
  ),
  'samples', (
    SELECT collect_list(sample) FROM (
      SELECT named_struct(
        'kind', {{ kind }},
        'before', left(to_json({{ before }}), {{ max_characters }}),
        'after', left(to_json({{ after }}), {{ max_characters }})
      ) AS sample
      FROM {{ "changed" | ours }}
      ORDER BY {{ kind }}, {% for leaf in leaves %}{{ ("key_" ~ loop.index) | ours }}{{ ", " if not loop.last }}{% endfor %}
      LIMIT {{ max_samples }}
    )
  )
))
