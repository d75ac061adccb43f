-- The last record of each key says whether the row counts as deleted, its last upsert what stands in it: a row that
-- comes and goes within one batch is left as it would be by two.
MERGE INTO {{ target | name }} AS t
USING (
  SELECT s.* FROM (
    SELECT {{ "row" | ours }}.*, {{ "ends_deleted" | ours }} FROM (
      SELECT
        ARRAY_AGG({{ "record" | ours }} ORDER BY {{ "op" | ours }} = 'd', {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC LIMIT 1)[OFFSET(0)] AS {{ "row" | ours }},
        ARRAY_AGG({{ "op" | ours }} ORDER BY {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC LIMIT 1)[OFFSET(0)] = 'd' AS {{ "ends_deleted" | ours }}
      FROM (
{% include "_staged.sql" %}
      ) AS {{ "record" | ours }}
      GROUP BY {% include "_key.sql" %}
    )
  ) AS s
  {%- if guarded is defined %}{% include "_no_later_record.sql" %}{% endif %}
) AS s
ON {% include "_on_key.sql" %}{% include "_bounds.sql" %}
WHEN MATCHED AND s.{{ "op" | ours }} = 'd' THEN UPDATE SET t.{{ flag | quoted }} = TRUE
WHEN MATCHED THEN UPDATE SET
{%- for column in values %}
  t.{{ column | quoted }} = s.{{ column | quoted }},
{%- endfor %}
  t.{{ flag | quoted }} = s.{{ "ends_deleted" | ours }}
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
