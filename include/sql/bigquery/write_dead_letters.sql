-- A place in the log is one dead letter for each table: writing it again changes nothing, another attempt's takes over.
-- One that a person has discarded stays so.
-- A topic of the same name that was deleted is another log. Where a letter does not tell its topic's id, equal bytes do.
-- The batch's offsets are named, so that letters of others need not be read.
{%- set columns = ["topic", "partition", "offset", "timestamp", "key", "value", "headers", "stage", "error_class", "message", "batch", "attempt", "table", "written_at", "replayed_at", "topic_id", "replayed_by"] %}
MERGE INTO {{ table | name }} AS t
USING (
  SELECT
    topic, `partition`, `offset`, `timestamp`, bad.key, bad.value, bad.headers, bad.stage, bad.class AS error_class, bad.message,
    batch_number AS batch, attempt, {{ target | text }} AS `table`,
    CURRENT_TIMESTAMP() AS written_at, CAST(NULL AS TIMESTAMP) AS replayed_at,
    {% include "_topic_id.sql" %} AS topic_id, CAST(NULL AS STRING) AS replayed_by
  FROM {{ source | name }}
  WHERE {% include "_parts.sql" %} AND op = 'bad'
) AS s
ON t.`table` = {{ target | text }} AND t.topic = s.topic AND t.`partition` = s.`partition` AND t.`offset` = s.`offset`
AND (t.topic_id = s.topic_id OR ((t.topic_id IS NULL OR s.topic_id IS NULL) AND t.`timestamp` = s.`timestamp` AND t.key IS NOT DISTINCT FROM s.key AND t.value IS NOT DISTINCT FROM s.value)) AND (
{%- for topic, number, start, end in ranges %}
  {{ "OR " if not loop.first }}({% if topic is not none %}t.topic = {{ topic | text }} {%- if number is not none %} AND t.`partition` = {{ number }} {%- endif %} AND {% endif %}t.`offset` >= {{ start }} AND t.`offset` < {{ end }})
{%- endfor %}
)
WHEN MATCHED AND t.attempt <> s.attempt AND t.stage <> 'discarded' THEN UPDATE SET
{%- for column in columns %}
  {{ column | quoted }} = s.{{ column | quoted }}{{ "," if not loop.last }}
{%- endfor %}
WHEN NOT MATCHED THEN INSERT ({% for column in columns %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %})
VALUES ({% for column in columns %}s.{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %})
