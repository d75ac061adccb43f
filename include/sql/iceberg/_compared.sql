{#- Each key of the differing buckets, and what is to be said of it. Facts about the staged records of a key:

    - `seen`: the log has records of it before the position;
    - `doubt`: these alone do not tell the row: a record was set aside, they come by several partitions, a late one may
      have come when its delete was forgotten, or compaction may have taken one (there is a later record). -#}
{%- set side = "side" | ours -%}
{{ "sides" | ours }} AS (
{% include "_sides.sql" %}
),
{{ "pairs" | ours }} AS (
  SELECT
    {%- for leaf in leaves %} {{ leaf | path }} AS {{ ("key_" ~ loop.index) | ours }},{% endfor %}
    count_if({{ side }} = 1) AS {{ "rows" | ours }}, count_if({{ side }} = -1) AS {{ "expected" | ours }},
    {%- for name, number in (("table", 1), ("log", -1)) %}
    first(struct({% for column in columns %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %})) FILTER (WHERE {{ side }} = {{ number }}) AS {{ name | ours }}{{ "," if loop.first }}
    {%- endfor %}
  FROM {{ "sides" | ours }}
  WHERE {{ "bucket" | ours }} IN ({{ buckets | join(", ") }})
  GROUP BY {% for leaf in leaves %}{{ leaf | path }}{{ ", " if not loop.last }}{% endfor %}
),
{{ "facts" | ours }} AS (
  SELECT
    {%- for leaf in leaves %} {{ leaf | path }} AS {{ ("key_" ~ loop.index) | ours }},{% endfor %}
    bool_or(number = 1) AS {{ "seen" | ours }},
    count(DISTINCT CASE WHEN number = 1 THEN struct(topic, partition) END) > 1 OR bool_or(number > 1) OR bool_or(is_letter)
    {%- if forgets %} OR (bool_or(op = 'd') AND bool_or(is_late)){% endif %} AS {{ "doubt" | ours }}
  FROM (
    SELECT r.*, l.offset IS NOT NULL AS is_letter
    FROM (
      SELECT
        {%- for column, field in keys %} {% include "_staged_key.sql" %} AS {{ column | quoted }},{% endfor %}
        batch_number AS number, op, topic, partition, offset
        {%- if forgets %}, coalesce(sequence < max(sequence) OVER (
          PARTITION BY {% for column, field in keys %}{% include "_staged_key.sql" %}{{ ", " if not loop.last }}{% endfor %}
          ORDER BY offset, topic, partition, i ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), false) AS is_late{% endif %}
      FROM {{ source | name }} VERSION AS OF {{ last_snapshot_id }}
      WHERE op <> 'bad'
    ) r
    LEFT JOIN (
      {%- if letters %}
      SELECT DISTINCT topic, partition, offset FROM {{ letters | name }} WHERE `table` = {{ target | text }}
      {%- else %}
      SELECT CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition, CAST(NULL AS BIGINT) AS offset
      {%- endif %}
    ) l ON l.topic = r.topic AND l.partition = r.partition AND l.offset = r.offset
  )
  GROUP BY {% for leaf in leaves %}{{ leaf | path }}{{ ", " if not loop.last }}{% endfor %}
),
{{ "compared" | ours }} AS (
  SELECT p.*,
    CASE
      WHEN p.{{ "rows" | ours }} = 1 AND p.{{ "expected" | ours }} = 1
      {%- for column in typed_columns %}
        AND {{ column | comparable("p." ~ ("table" | ours)) }} <=> {{ column | comparable("p." ~ ("log" | ours)) }}
      {%- endfor %} THEN 'equal'
      WHEN coalesce(f.{{ "doubt" | ours }}, false) {% if not is_complete %}{{ "OR NOT coalesce(f." ~ ("seen" | ours) ~ ", false)" if is_plain else "OR true" }} {% endif %}THEN 'unknowable'
      WHEN p.{{ "rows" | ours }} = 0 THEN 'missing'
      WHEN p.{{ "expected" | ours }} = 0 OR p.{{ "rows" | ours }} > 1 THEN 'surplus'
      ELSE 'different'
    END AS {{ "kind" | ours }}
  FROM {{ "pairs" | ours }} p LEFT JOIN {{ "facts" | ours }} f
  ON {% for leaf in leaves %}p.{{ ("key_" ~ loop.index) | ours }} <=> f.{{ ("key_" ~ loop.index) | ours }}{{ " AND " if not loop.last }}{% endfor %}
)
