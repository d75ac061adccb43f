{#- Each key of the differing buckets, with history each version of it, and what is to be said of it. Facts about the
    staged records of a key:

    - `seen`: the log has records of it before the position;
    - `spread`: they come by several partitions. Where a part of the log is gone, no key is known to stay in one then;
    - `doubt`: these alone do not tell the row: a record was set aside, a late one may have come when its delete was
      forgotten, or there is a later record, for which compaction may have taken one, or whose delete is remembered. -#}
{%- set side = "side" | ours -%}
{%- set number = "number" | ours -%}
{%- set unseen -%}
NOT coalesce(f.{{ "seen" | ours }}, false) OR (SELECT coalesce(bool_or({{ "spread" | ours }}), false) FROM {{ "facts" | ours }})
{%- endset -%}
{{ "sides" | ours }} AS (
{% include "_sides.sql" %}
),
{{ "pairs" | ours }} AS (
  SELECT
    {%- for leaf in row_leaves %} {{ leaf | path }} AS {{ ("key_" ~ loop.index) | ours }},{% endfor %}
    count_if({{ side }} = 1) AS {{ "rows" | ours }}, count_if({{ side }} = -1) AS {{ "expected" | ours }},
    {%- for name, number in (("table", 1), ("log", -1)) %}
    first(struct({% for column in columns %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %})) FILTER (WHERE {{ side }} = {{ number }}) AS {{ name | ours }}{{ "," if loop.first }}
    {%- endfor %}
  FROM {{ "sides" | ours }}
  {%- if buckets %}
  WHERE {{ "bucket" | ours }} IN ({{ buckets | join(", ") }})
  {%- endif %}
  GROUP BY {% for leaf in row_leaves %}{{ leaf | path }}{{ ", " if not loop.last }}{% endfor %}
),
{{ "facts" | ours }} AS (
  SELECT
    {%- for leaf in leaves %} {{ leaf | path }} AS {{ ("key_" ~ loop.index) | ours }},{% endfor %}
    bool_or({{ number }} = 1) AS {{ "seen" | ours }},
    count(DISTINCT CASE WHEN {{ number }} = 1 THEN struct({{ "topic" | ours }}, {{ "partition" | ours }}) END) > 1 AS {{ "spread" | ours }},
    bool_or({{ number }} > 1) OR bool_or({{ "is_letter" | ours }})
    {%- if forgets %} OR (bool_or({{ "op" | ours }} = 'd') AND bool_or({{ "is_late" | ours }})){% endif %} AS {{ "doubt" | ours }}
  FROM (
    SELECT r.*, l.offset IS NOT NULL AS {{ "is_letter" | ours }}
    FROM (
      SELECT
        {%- for column, field in keys %} {% include "_staged_key.sql" %} AS {{ column | quoted }},{% endfor %}
        batch_number AS {{ number }}, op AS {{ "op" | ours }}, topic AS {{ "topic" | ours }}, partition AS {{ "partition" | ours }}, offset AS {{ "offset" | ours }}
        {%- if forgets %}, coalesce(sequence < max(sequence) OVER (
          PARTITION BY {% for column, field in keys %}{% include "_staged_key.sql" %}{{ ", " if not loop.last }}{% endfor %}
          ORDER BY offset, topic, partition, i ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), false) AS {{ "is_late" | ours }}{% endif %}
      FROM {{ source | name }} VERSION AS OF {{ last_snapshot_id }}
      WHERE {% with parts = seen_parts %}{% include "_parts.sql" %}{% endwith %} AND op <> 'bad'
    ) r
    LEFT JOIN (
      {%- if letters %}
      SELECT DISTINCT topic, partition, offset FROM {{ letters | name }} VERSION AS OF {{ letters_snapshot_id }} WHERE `table` = {{ target | text }} AND {% include "_of_this_topic.sql" %}
      {%- else %}
      SELECT CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition, CAST(NULL AS BIGINT) AS offset
      {%- endif %}
    ) l ON l.topic = r.{{ "topic" | ours }} AND l.partition = r.{{ "partition" | ours }} AND l.offset = r.{{ "offset" | ours }}
  )
  GROUP BY {% for leaf in leaves %}{{ leaf | path }}{{ ", " if not loop.last }}{% endfor %}
),
{%- if form == "history" %}
{% include "_history_untold.sql" %}
{%- endif %}
{{ "compared" | ours }} AS (
  SELECT p.*,
    CASE
      WHEN p.{{ "rows" | ours }} = 1 AND p.{{ "expected" | ours }} = 1
      {%- for column in typed_columns %}
        AND {{ column | comparable("p." ~ ("table" | ours)) }} <=> {{ column | comparable("p." ~ ("log" | ours)) }}
      {%- endfor %} THEN 'equal'
      WHEN coalesce(f.{{ "doubt" | ours }} OR f.{{ "spread" | ours }}, false)
      {%- if form == "history" %} OR u.{{ "is_late" | ours }} IS NOT NULL{% endif %}
      {%- if not is_complete %} OR {{ unseen if is_plain else "true" }}{{ " OR p." ~ ("rows" | ours) ~ " = 0" if is_plain and may_lack_deletes }}{% endif %} THEN 'unknowable'
      WHEN p.{{ "rows" | ours }} = 0 THEN 'missing'
      WHEN p.{{ "expected" | ours }} = 0 OR p.{{ "rows" | ours }} > 1 THEN 'surplus'
      ELSE 'different'
    END AS {{ "kind" | ours }}
  FROM {{ "pairs" | ours }} p LEFT JOIN {{ "facts" | ours }} f
  ON {% for leaf in leaves %}p.{{ ("key_" ~ loop.index) | ours }} <=> f.{{ ("key_" ~ loop.index) | ours }}{{ " AND " if not loop.last }}{% endfor %}
  {%- if form == "history" %}
  LEFT JOIN {{ "untold" | ours }} u
  ON {% for leaf in leaves %}p.{{ ("key_" ~ loop.index) | ours }} <=> u.{{ ("key_" ~ loop.index) | ours }}{{ " AND " if not loop.last }}{% endfor %}
  {%- endif %}
)
