{#- What the table holds and what waits. Spark looks up each table of a query once, in the order of the text:

    1. The position: the tag first, then the snapshots, then which of them are main's; so what it names is there.
    2. The table, which may have moved on from the position by then: its next batches are folded a second time, and
       that changes no upsert.
    3. Remembered deletes: of no batch that 4 does not know.
    4. What is staged: all batches from the position to where the table stands, and later ones. Published ones stay for
       longer than a query is planned (`KEPT_MS` in staging.py). -#}
-- where the table stands; no row after a rollback, so that nothing staged counts until the pipeline has gone on
{{ "position" | ours }} AS (
  SELECT
    from_json(max_by(s.summary[{{ (mark ~ "position") | text }}], h.made_current_at), 'MAP<STRING, MAP<STRING, BIGINT>>') AS offsets,
    CAST(max_by(s.summary[{{ (mark ~ "batch") | text }}], h.made_current_at) AS BIGINT) AS batch
  FROM {{ target | name }}.refs r
  CROSS JOIN {{ target | name }}.snapshots s
  JOIN {{ target | name }}.history h ON h.snapshot_id = s.snapshot_id
  WHERE r.name = {{ tag | text }} AND r.type = 'TAG'
    AND h.is_current_ancestor AND s.summary[{{ (mark ~ "position") | text }}] IS NOT NULL
  HAVING bool_or(h.snapshot_id = r.snapshot_id)
),
{{ "rows" | ours }} AS (
  SELECT
    {%- for column in columns %} {{ column | quoted }}{{ "," if not loop.last }}{% endfor %}
  FROM {{ target | name }}
),
{%- if deletes is defined and deletes %}
{{ "remembered" | ours }} AS (
  SELECT * FROM {{ deletes | name }}
),
{%- endif %}
-- complete attempts that this text can read: each has a tag
{{ "attempts" | ours }} AS (
  SELECT *,
    transform_values(ranges, (t, parts) -> transform_values(parts, (p, r) -> r[1])) AS ends
  FROM (
    SELECT
      CAST(s.summary['tidegate.batch'] AS BIGINT) AS batch, s.summary['tidegate.attempt'] AS attempt,
      coalesce(CAST(s.summary['added-records'] AS BIGINT), 0L) AS written,
      from_json(get_json_object(s.summary['tidegate.staged'], '$.ranges'), 'MAP<STRING, MAP<STRING, ARRAY<BIGINT>>>') AS ranges
    FROM {{ source | name }}.refs r
    JOIN {{ source | name }}.snapshots s ON s.snapshot_id = r.snapshot_id
    WHERE r.type = 'TAG' AND startswith(r.name, 'tidegate_staged_')
      AND substring_index(get_json_object(s.summary['tidegate.staged'], '$.shape'), '.', 1) = {{ shape | text }}
      AND coalesce(get_json_object(s.summary['tidegate.staged'], '$.table_uuid'), {{ uuid | text }}) = {{ uuid | text }}
  )
),
-- those that are not published, and continue from the position without a gap; all rows of each must be there
{{ "batches" | ours }} AS (
  SELECT attempt FROM (
    SELECT attempt, bool_and(is_whole AND coalesce(forall(
      map_entries(before), t -> forall(map_entries(t.value), p -> ranges[t.key][p.key][0] = p.value)
    ), false)) OVER (ORDER BY batch) AS is_next
    FROM (
      SELECT a.*, coalesce(lag(a.ends) OVER (ORDER BY a.batch), p.offsets) AS before, coalesce(w.n, 0L) = a.written AS is_whole
      FROM {{ "position" | ours }} p
      JOIN {{ "attempts" | ours }} a ON a.batch > p.batch
      LEFT JOIN (
        SELECT batch_number, attempt, count(*) AS n FROM {{ source | name }} GROUP BY batch_number, attempt
      ) w ON w.batch_number = a.batch AND w.attempt = a.attempt
    )
  )
  WHERE is_next
),
