{#- What the table holds and what waits. Spark looks up each table of a query once, in the order of the text: first these,
    then the table itself. A batch that is published meanwhile is folded a second time, which changes no upsert. -#}
-- where the table stands; no row after a rollback, so that nothing staged counts until the pipeline has gone on
{{ "position" | ours }} AS (
  SELECT
    from_json(max_by(s.summary[{{ (mark ~ "position") | text }}], h.made_current_at), 'MAP<STRING, MAP<STRING, BIGINT>>') AS offsets,
    CAST(max_by(s.summary[{{ (mark ~ "batch") | text }}], h.made_current_at) AS BIGINT) AS batch
  FROM {{ target | name }}.history h
  JOIN {{ target | name }}.snapshots s ON s.snapshot_id = h.snapshot_id
  LEFT JOIN {{ target | name }}.refs r ON r.snapshot_id = h.snapshot_id AND r.name = {{ tag | text }} AND r.type = 'TAG'
  WHERE h.is_current_ancestor AND s.summary[{{ (mark ~ "position") | text }}] IS NOT NULL
  HAVING count(r.name) > 0
),
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
  SELECT batch, attempt FROM (
    SELECT batch, attempt, bool_and(is_whole AND coalesce(forall(
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
