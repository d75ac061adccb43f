-- One row for each change: what a key was from when on, or when it was deleted. Facts of the log, so that writing them
-- again does no harm. A record that is read again counts as it is read now. A delete that tells no time of its own (kind t) ends what its key had come to.
{%- from "_not_earlier.sql" import not_earlier %}
{%- set places = ["offset", "topic", "partition", "i"] %}
{%- set at = [("offset" | ours), ("topic" | ours), ("partition" | ours), ("i" | ours)] | join(", ") %}
MERGE INTO {{ changes | name }} AS t
USING (
  SELECT {{ "change" | ours }}.* FROM (
    SELECT ARRAY_AGG({{ "record" | ours }} ORDER BY {% for column in sequence %}{{ ("sequence_" ~ loop.index) | ours }} DESC, {% endfor %}{{ "offset" | ours }} DESC, {{ "topic" | ours }} DESC, {{ "partition" | ours }} DESC, {{ "i" | ours }} DESC LIMIT 1)[OFFSET(0)] AS {{ "change" | ours }}
    FROM (
      SELECT s.*,
        {%- for column in sequence %}
        IF(s.{{ "kind" | ours }} = 't', NULL, s.{{ "sequence" | ours }}.{{ column | quoted }}) AS {{ ("sequence_" ~ loop.index) | ours }},
        {%- endfor %}
        {%- if asks_rows %}
        IF(s.{{ "kind" | ours }} = 't', COALESCE(GREATEST(s.{{ "reached" | ours }}, t.{{ "reached" | ours }}), s.{{ "reached" | ours }}, t.{{ "reached" | ours }}), s.{{ "axis" | ours }}) AS {{ "from" | ours }}
        {%- else %}
        s.{{ "axis" | ours }} AS {{ "from" | ours }}
        {%- endif %}
      FROM (
        SELECT *,
          MAX({{ "axis" | ours }}) OVER (
            PARTITION BY {% include "_key.sql" %}
            ORDER BY {{ at }} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS {{ "reached" | ours }}
        FROM (
          SELECT *,
            {%- if sequence %}
            COALESCE({{ "sequence" | ours }}.{{ sequence[0] | quoted }}, IF({{ "op" | ours }} = 'd', {{ ("timestamp" | ours | time_as(axis_type)) if is_time else "CAST(NULL AS " ~ (axis_type | cast_type) ~ ")" }}, NULL)) AS {{ "axis" | ours }},
            CASE WHEN {{ "op" | ours }} <> 'd' THEN 'u' WHEN {{ "sequence" | ours }}.{{ sequence[0] | quoted }} IS NULL THEN 't' ELSE 'd' END AS {{ "kind" | ours }}
            {%- else %}
            {{ "timestamp" | ours }} AS {{ "axis" | ours }},
            IF({{ "op" | ours }} = 'd', 'd', 'u') AS {{ "kind" | ours }}
            {%- endif %}
          FROM (
{% include "_staged.sql" %}
          )
        )
      ) AS s
      {%- if asks_rows %}
      LEFT JOIN (
        SELECT {% for column, _ in keys %}ANY_VALUE({{ ("record" | ours) ~ "." ~ (column | quoted) }}) AS {{ column | quoted }}, {% endfor %}MAX({{ ("record" | ours) ~ "." ~ ("reached" | ours) }}) AS {{ "reached" | ours }} FROM (
          SELECT {% for column, _ in keys %}t.{{ column | quoted }}, {% endfor %}t.{{ "valid_from" | ours }} AS {{ "reached" | ours }} FROM {{ changes | name }} AS t
          JOIN (
      {% include "_history_touched.sql" %}
          ) AS s ON {% include "_on_key.sql" %}
          UNION ALL
          SELECT {% for column, _ in keys %}t.{{ column | quoted }}, {% endfor %}COALESCE(GREATEST(t.{{ valid_from | quoted }}, t.{{ valid_to | quoted }}), t.{{ valid_from | quoted }}) FROM {{ target | name }} AS t
          JOIN (
      {% include "_history_touched.sql" %}
          ) AS s ON {% include "_on_key.sql" %}
          WHERE TRUE{% include "_bounds.sql" %}
        ) AS {{ "record" | ours }}
        GROUP BY {% with of = ("record" | ours) ~ "." %}{% include "_key.sql" %}{% endwith %}
      ) AS t ON s.{{ "kind" | ours }} = 't' AND {% include "_on_key.sql" %}
      LEFT JOIN {{ changes | name }} AS {{ "known" | ours }}
      ON s.{{ "kind" | ours }} = {{ "known" | ours }}.{{ "kind" | ours }} AND {{ "known" | ours }}.{{ "kind" | ours }} = 't'
        {%- for leaf in leaves %}
        {%- set mine, known = "s." ~ (leaf | path), ("known" | ours) ~ "." ~ (leaf | path) %}
        AND ({{ mine }} = {{ known }} OR ({{ mine }} IS NULL AND {{ known }} IS NULL))
        {%- endfor %}
        {%- for name in places %}
        AND s.{{ name | ours }} = {{ "known" | ours }}.{{ name | ours }}
        {%- endfor %}
      WHERE {{ "known" | ours }}.{{ "kind" | ours }} IS NULL
      {%- endif %}
    ) AS {{ "record" | ours }}
    WHERE {{ ("record" | ours) ~ "." ~ ("from" | ours) }} IS NOT NULL
    GROUP BY {% with of = ("record" | ours) ~ "." %}{% include "_key.sql" %}{% endwith %}, {{ ("record" | ours) ~ "." ~ ("from" | ours) }}, {{ ("record" | ours) ~ "." ~ ("kind" | ours) }}
  )
) AS s
{%- set pairs = [] %}
{%- for column in sequence %}
{%- set _ = pairs.append(("s." ~ (("sequence_" ~ loop.index) | ours), "IF(t." ~ ("kind" | ours) ~ " = 't', NULL, t." ~ ("sequence" | ours) ~ "." ~ (column | quoted) ~ ")")) %}
{%- endfor %}
{%- for name in places %}
{%- set _ = pairs.append(("s." ~ (name | ours), "t." ~ (name | ours))) %}
{%- endfor %}
ON {% include "_on_key.sql" %} AND t.{{ "valid_from" | ours }} = s.{{ "from" | ours }} AND t.{{ "kind" | ours }} = s.{{ "kind" | ours }}
WHEN MATCHED AND {{ not_earlier(pairs) }} THEN UPDATE SET
  {%- for column in values %}
  t.{{ column | quoted }} = s.{{ column | quoted }},
  {%- endfor %}
  {%- if sequence %}
  t.{{ "sequence" | ours }} = s.{{ "sequence" | ours }},
  {%- endif %}
  {%- for name in places %}
  t.{{ name | ours }} = s.{{ name | ours }},
  {%- endfor %}
  t.{{ "timestamp" | ours }} = s.{{ "timestamp" | ours }}
WHEN NOT MATCHED THEN INSERT (
  {%- for column, _ in keys %}{{ column | quoted }}, {% endfor %}
  {%- for column in values %}{{ column | quoted }}, {% endfor %}
  {%- if sequence %}{{ "sequence" | ours }}, {% endif %}{{ "valid_from" | ours }}, {{ "kind" | ours }}, {% for name in places %}{{ name | ours }}, {% endfor %}{{ "timestamp" | ours -}}
)
VALUES (
  {%- for column, _ in keys %}s.{{ column | quoted }}, {% endfor %}
  {%- for column in values %}s.{{ column | quoted }}, {% endfor %}
  {%- if sequence %}s.{{ "sequence" | ours }}, {% endif %}s.{{ "from" | ours }}, s.{{ "kind" | ours }}, {% for name in places %}s.{{ name | ours }}, {% endfor %}s.{{ "timestamp" | ours }})
