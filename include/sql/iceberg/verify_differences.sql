-- The first keys that differ: of a row on one side alone the whole row, else the columns that differ.
{%- set in_table = "table" | ours %}
{%- set in_log = "log" | ours %}
{#- as to_json alone would cut times to milliseconds, and explain takes the key as it is shown -#}
{%- set key_options -%}
map('timestampFormat', {{ "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX" | text }}, 'timestampNTZFormat', {{ "yyyy-MM-dd'T'HH:mm:ss.SSSSSS" | text }})
{%- endset -%}
{%- macro show(of, name) -%}
{%- set text = of ~ "." ~ (name | quoted) -%}
left({{ "hex(" ~ text ~ ")" if name in binary_columns else "CAST(" ~ text ~ " AS STRING)" }}, {{ max_characters }})
{%- endmacro %}
WITH {% include "_compared.sql" %}
SELECT to_json(collect_list(difference)) FROM (
  SELECT named_struct(
    'kind', {{ "kind" | ours }},
    'key', to_json(struct({% for column in row_key %}coalesce({{ in_table }}, {{ in_log }}).{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %}), {{ key_options }}),
    'rows', {{ "rows" | ours }},
    'table', left(to_json({{ in_table }}), {{ max_characters }}), 'log', left(to_json({{ in_log }}), {{ max_characters }}),
    'columns', filter(array(
      {%- for name, kind in typed_columns %}
      CASE WHEN NOT {{ (name, kind) | comparable(in_table) }} <=> {{ (name, kind) | comparable(in_log) }} THEN named_struct(
        'column', {{ name | text }}, 'table', {{ show(in_table, name) }}, 'log', {{ show(in_log, name) }}
      ) END{{ "," if not loop.last }}
      {%- endfor %}
    ), entry -> entry IS NOT NULL)
  ) AS difference
  FROM {{ "compared" | ours }}
  WHERE {{ "kind" | ours }} IN ('missing', 'surplus', 'different')
  ORDER BY to_json(struct({% for leaf in row_leaves %}{{ ("key_" ~ loop.index) | ours }}{{ ", " if not loop.last }}{% endfor %}))
  LIMIT {{ max_differences }}
)
