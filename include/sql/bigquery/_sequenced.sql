  SELECT s.* FROM (
    SELECT {{ "row" | ours }}.*, {{ "last" | ours }}, {{ "reset" | ours }} FROM (
      SELECT
        ARRAY_AGG({{ "record" | ours }} ORDER BY {{ "is_row" | ours }} DESC, {{ "place" | ours }} DESC LIMIT 1)[OFFSET(0)] AS {{ "row" | ours }},
        ARRAY_AGG(
          IF({{ "sequence" | ours }} IS NULL, NULL, STRUCT({{ "sequence" | ours }} AS sequence, {{ "op" | ours }} AS op, {% include "_place.sql" %}))
          ORDER BY {{ "level" | ours }} DESC, {{ "place" | ours }} DESC LIMIT 1
        )[OFFSET(0)] AS {{ "last" | ours }},
        ARRAY_AGG(
          IF({{ "sequence" | ours }} IS NULL, STRUCT({% include "_place.sql" %}), NULL)
          ORDER BY {{ "sequence" | ours }} IS NULL DESC, {{ "place" | ours }} DESC LIMIT 1
        )[OFFSET(0)] AS {{ "reset" | ours }}
      FROM (
        SELECT *,
          {{ "op" | ours }} <> 'd' AND COALESCE({{ "level" | ours }} >= {{ "before" | ours }}, TRUE) AS {{ "is_row" | ours }}
        FROM (
          SELECT *,
            MAX({{ "level" | ours }}) OVER (
              PARTITION BY {% include "_key.sql" %}
              ORDER BY {{ "place" | ours }} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS {{ "before" | ours }}
          FROM (
            SELECT *,
              ROW_NUMBER() OVER (
                PARTITION BY {% include "_key.sql" %}
                ORDER BY {% if in_turn is defined %}{{ "batch" | ours }}, {% endif %}{{ "offset" | ours }}, {{ "topic" | ours }}, {{ "partition" | ours }}, {{ "i" | ours }}
              ) AS {{ "place" | ours }},
              IF({{ "sequence" | ours }} IS NULL, NULL, DENSE_RANK() OVER (
                PARTITION BY {% include "_key.sql" %}
                ORDER BY {{ "sequence" | ours }} IS NULL{% for column in sequence %}, {{ "sequence" | ours }}.{{ column | quoted }}{% endfor %}
              )) AS {{ "level" | ours }}
            FROM (
{% include "_staged.sql" %}
            )
          )
        )
      ) AS {{ "record" | ours }}
      GROUP BY {% include "_key.sql" %}
    )
  ) AS s
  {%- if guarded is defined %}{% include "_no_later_record.sql" %}{% endif %}
