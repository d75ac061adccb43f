-- One row for each key that a batch deletes: at what sequence, and by which record. A fact of the log, so that writing it
-- again does no harm. A delete without a sequence stands at the highest one known before it.
MERGE INTO {{ deletes | name }}.{{ branch | quoted }} t
USING (
  SELECT
    {%- for column, _ in keys %}
    s.{{ column | quoted }},
    {%- endfor %}
    {%- if asks_rows %}
    greatest(s.{{ "last" | ours }}.sequence, t.sequence) AS sequence,
    {%- else %}
    s.{{ "last" | ours }}.sequence AS sequence,
    {%- endif %}
    {%- if soft %}
    CASE WHEN s.{{ "is_row" | ours }} THEN s.{{ "sequence" | ours }} END AS {{ "row_sequence" | ours }},
    {%- endif %}
    greatest(
      CASE WHEN s.{{ "last" | ours }}.op = 'd' THEN named_struct('at', s.{{ "last" | ours }}.at, 'timestamp', s.{{ "last" | ours }}.timestamp) END,
      s.{{ "reset" | ours }}
    ) AS {{ "by" | ours }}
  FROM (
{% include "_sequenced.sql" %}
  ) s
  {%- if asks_rows %}
  LEFT JOIN (
    SELECT
      {%- for column, _ in keys %} t.{{ column | quoted }},{% endfor %} {% include "_row_sequence.sql" %} AS sequence
    FROM {{ target | name }}.{{ branch | quoted }} t
  ) t ON s.{{ "reset" | ours }} IS NOT NULL AND {% include "_on_key.sql" %}
  {%- endif %}
  WHERE s.{{ "last" | ours }}.op = 'd' OR s.{{ "reset" | ours }} IS NOT NULL
) s
ON {% include "_on_key.sql" %}
WHEN MATCHED AND s.sequence >= t.sequence
{%- if soft %} AND coalesce(s.{{ "row_sequence" | ours }} < t.sequence, true){% endif %} THEN UPDATE SET
  t.sequence = s.sequence,
  t.topic = s.{{ "by" | ours }}.at.topic,
  t.partition = s.{{ "by" | ours }}.at.partition,
  t.offset = s.{{ "by" | ours }}.at.offset,
  t.timestamp = s.{{ "by" | ours }}.timestamp
WHEN NOT MATCHED AND s.sequence IS NOT NULL
{%- if soft %} AND s.{{ "row_sequence" | ours }} IS NULL{% endif %} THEN INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}, {% endfor %}sequence, topic, partition, offset, timestamp
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}, {% endfor %}s.sequence, s.{{ "by" | ours }}.at.topic,
  s.{{ "by" | ours }}.at.partition, s.{{ "by" | ours }}.at.offset, s.{{ "by" | ours }}.timestamp
)
