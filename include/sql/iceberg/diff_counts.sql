-- How many keys the branch changes against main, a checksum of all changes, and whether the condition on the counts holds.
{%- set hash = "change_hash" | ours %}
WITH {% include "_changed.sql" %}
SELECT to_json(named_struct(
  'inserted', inserted, 'updated', updated, 'deleted', deleted, 'rows', `rows`, 'table_rows', table_rows, 'checksum', {{ "checksum" | ours }},
  'when', {% if when is none %}false{% else %}coalesce((
{{ when }}
), true){% endif %}
)) FROM (
  SELECT *, inserted + updated + deleted AS `rows` FROM (
    SELECT
      count_if({{ "kind" | ours }} = 'inserted') AS inserted,
      count_if({{ "kind" | ours }} = 'updated') AS updated,
      count_if({{ "kind" | ours }} = 'deleted') AS deleted,
      (
        SELECT count(1) FROM {{ target | name }}{% if main %}.{{ main | quoted }}{% endif %} t
        {%- if flag %} WHERE NOT coalesce(t.{{ flag | quoted }}, false){% elif current %} WHERE t.{{ current | quoted }}{% endif %}
      ) AS table_rows,
      concat_ws('.', coalesce(sum({{ hash }} & 4294967295L), 0L), coalesce(sum(shiftrightunsigned({{ hash }}, 32)), 0L)) AS {{ "checksum" | ours }}
    FROM (
      SELECT {{ "kind" | ours }}, xxhash64(
        {%- for leaf in leaves %}{{ ("key_" ~ loop.index) | ours }}, {{ ("key_" ~ loop.index) | ours }} IS NULL, {% endfor %}
        {%- for name in ("count_1", "low_1", "high_1", "count_2", "low_2", "high_2") %}{{ name | ours }}{{ ", " if not loop.last }}{% endfor %}) AS {{ hash }}
      FROM {{ "changed" | ours }}
    )
  )
)
