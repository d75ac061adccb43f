-- One row for each key that a batch deletes: at what sequence, and by which record. A fact of the log, so that writing it
-- again, or too early, does no harm. A delete without a sequence stands at the highest one known before it.
{%- from "_at_least.sql" import at_least, columns_at_least %}
{%- set last, reset, by = "s." ~ ("last" | ours), "s." ~ ("reset" | ours), "s." ~ ("by" | ours) %}
MERGE INTO {{ deletes | name }} AS t
USING (
  SELECT
    {%- for column, _ in keys %}
    s.{{ column | quoted }},
    {%- endfor %}
    {%- if asks_rows %}
    IF(t.sequence IS NULL OR {{ at_least(last ~ ".sequence", "t.sequence", sequence) }}, {{ last }}.sequence, t.sequence) AS sequence,
    {%- else %}
    {{ last }}.sequence AS sequence,
    {%- endif %}
    {%- if soft %}
    IF(s.{{ "is_row" | ours }}, s.{{ "sequence" | ours }}, NULL) AS {{ "row_sequence" | ours }},
    {%- endif %}
    IF(
      {{ last }}.op = 'd' AND COALESCE({{ last }}.place > {{ reset }}.place, TRUE),
      STRUCT({{ last }}.place AS place, {{ last }}.topic AS topic, {{ last }}.`partition` AS `partition`, {{ last }}.`offset` AS `offset`, {{ last }}.`timestamp` AS `timestamp`),
      {{ reset }}
    ) AS {{ "by" | ours }}
  FROM (
{% include "_sequenced.sql" %}
  ) AS s
  {%- if asks_rows %}
  LEFT JOIN (
    SELECT
      {%- for column, _ in keys %} t.{{ column | quoted }},{% endfor %} STRUCT({% for column in sequence %}t.{{ column | quoted }} AS {{ column | quoted }}{{ ", " if not loop.last }}{% endfor %}) AS sequence
    FROM {{ target | name }} AS t
    WHERE TRUE{% include "_bounds.sql" %}
  ) AS t ON {{ reset }} IS NOT NULL AND {% include "_on_key.sql" %}
  {%- endif %}
  WHERE {{ last }}.op = 'd' OR {{ reset }} IS NOT NULL
) AS s
ON {% include "_on_key.sql" %}
WHEN MATCHED AND {{ at_least("s.sequence", "t.sequence", sequence) }}
{%- if soft %} AND NOT COALESCE({{ at_least("s." ~ ("row_sequence" | ours), "t.sequence", sequence) }}, FALSE){% endif %} THEN UPDATE SET
  sequence = s.sequence,
  topic = {{ by }}.topic,
  `partition` = {{ by }}.`partition`,
  `offset` = {{ by }}.`offset`,
  `timestamp` = {{ by }}.`timestamp`
WHEN NOT MATCHED AND s.sequence IS NOT NULL
{%- if soft %} AND s.{{ "row_sequence" | ours }} IS NULL{% endif %} THEN INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}, {% endfor %}sequence, topic, `partition`, `offset`, `timestamp`
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}, {% endfor %}s.sequence, {{ by }}.topic,
  {{ by }}.`partition`, {{ by }}.`offset`, {{ by }}.`timestamp`
)
