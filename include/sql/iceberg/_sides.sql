{#- The table's rows (side 1) and those of the log (side -1), in one union and so of equal types, each with its bucket. -#}
{%- set key_hash %}xxhash64({% for leaf in leaves %}{{ leaf | path }}, {{ leaf | path }} IS NULL{{ ", " if not loop.last }}{% endfor %}){% endset -%}
  SELECT *, pmod({{ key_hash }}, {{ bucket_count }}) AS {{ "bucket" | ours }} FROM (
    SELECT
      {%- for column, _ in keys %} {{ column | quoted }},{% endfor %}
      {%- for column in values %} {{ column | quoted }},{% endfor %}
      {%- if flag and shows_flag %} {{ flag | quoted }},{% endif %}
      1L AS {{ "side" | ours }}
    FROM {{ target | name }} VERSION AS OF {{ table_snapshot_id }}
    UNION ALL
{% include "_expected.sql" %}
  )
{%- if of_row is defined %}
  WHERE {{ of_row }}
{%- elif sample_per_million < 1000000 %}
  WHERE pmod({{ key_hash }}, 1000000) < {{ sample_per_million }}
{%- endif %}
