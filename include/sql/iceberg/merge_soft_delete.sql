-- The last record of each key says whether the row counts as deleted, its last upsert what stands in it: a row that
-- comes and goes within one batch is left as it would be by two.
MERGE INTO {{ target | name }}.{{ branch | quoted }} t
USING (
  SELECT * FROM (
    SELECT *,
      max(struct({% if in_turn is defined %}{{ "batch" | ours }}, {% endif %}{{ "offset" | ours }}, {{ "i" | ours }}, {{ "op" | ours }})) OVER (
        PARTITION BY {% include "_key.sql" %}
      ).{{ "op" | ours }} = 'd' AS {{ flag | quoted }},
      row_number() OVER (
        PARTITION BY {% include "_key.sql" %}
        ORDER BY {{ "op" | ours }} = 'd', {% if in_turn is defined %}{{ "batch" | ours }} DESC, {% endif %}{{ "offset" | ours }} DESC, {{ "i" | ours }} DESC
      ) AS {{ "rank" | ours }}
    FROM (
{% include "_staged.sql" %}
    )
  ){{ " s" if guarded is defined }}
  WHERE {{ "rank" | ours }} = 1
  {%- if guarded is defined %}
{% include "_no_later_record.sql" %}
  {%- endif %}
) s
ON {% include "_on_key.sql" %}
WHEN MATCHED AND s.{{ "op" | ours }} = 'd' THEN UPDATE SET t.{{ flag | quoted }} = true
{%- with values = values + [flag] %}
WHEN MATCHED THEN {% include "_update.sql" %}
WHEN NOT MATCHED AND s.{{ "op" | ours }} <> 'd' THEN {% include "_insert.sql" %}
{%- endwith %}
