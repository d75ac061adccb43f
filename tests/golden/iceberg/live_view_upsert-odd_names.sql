-- The last staged record of each key decides: a delete hides the row, anything else stands in its place.
WITH
-- where the table stands; no row after a rollback, so that nothing staged counts until the pipeline has gone on
`_tidegate_position` AS (
  SELECT
    from_json(max_by(s.summary['tidegate.shop.position'], h.made_current_at), 'MAP<STRING, MAP<STRING, BIGINT>>') AS offsets,
    CAST(max_by(s.summary['tidegate.shop.batch'], h.made_current_at) AS BIGINT) AS batch
  FROM `lake`.`my shop`.`or``ders`.refs r
  CROSS JOIN `lake`.`my shop`.`or``ders`.snapshots s
  JOIN `lake`.`my shop`.`or``ders`.history h ON h.snapshot_id = s.snapshot_id
  WHERE r.name = 'tidegate_shop' AND r.type = 'TAG'
    AND h.is_current_ancestor AND s.summary['tidegate.shop.position'] IS NOT NULL
  HAVING bool_or(h.snapshot_id = r.snapshot_id)
),
`_tidegate_rows` AS (
  SELECT `order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`
  FROM `lake`.`my shop`.`or``ders`
),
-- complete attempts that this text can read: each has a tag
`_tidegate_attempts` AS (
  SELECT *,
    transform_values(ranges, (t, parts) -> transform_values(parts, (p, r) -> r[1])) AS ends
  FROM (
    SELECT
      CAST(s.summary['tidegate.batch'] AS BIGINT) AS batch, s.summary['tidegate.attempt'] AS attempt,
      coalesce(CAST(s.summary['added-records'] AS BIGINT), 0L) AS written,
      from_json(get_json_object(s.summary['tidegate.staged'], '$.ranges'), 'MAP<STRING, MAP<STRING, ARRAY<BIGINT>>>') AS ranges
    FROM `lake`.`my shop`.`or``ders_shop_tmp`.refs r
    JOIN `lake`.`my shop`.`or``ders_shop_tmp`.snapshots s ON s.snapshot_id = r.snapshot_id
    WHERE r.type = 'TAG' AND startswith(r.name, 'tidegate_staged_')
      AND substring_index(get_json_object(s.summary['tidegate.staged'], '$.shape'), '.', 1) = '0123456789ab'
      AND coalesce(get_json_object(s.summary['tidegate.staged'], '$.table_uuid'), 'f5d5e0c5-0000-4000-8000-000000000000') = 'f5d5e0c5-0000-4000-8000-000000000000'
  )
),
-- those that are not published, and continue from the position without a gap; all rows of each must be there
`_tidegate_batches` AS (
  SELECT attempt FROM (
    SELECT attempt, bool_and(is_whole AND coalesce(forall(
      map_entries(before), t -> forall(map_entries(t.value), p -> ranges[t.key][p.key][0] = p.value)
    ), false)) OVER (ORDER BY batch) AS is_next
    FROM (
      SELECT a.*, coalesce(lag(a.ends) OVER (ORDER BY a.batch), p.offsets) AS before, coalesce(w.n, 0L) = a.written AS is_whole
      FROM `_tidegate_position` p
      JOIN `_tidegate_attempts` a ON a.batch > p.batch
      LEFT JOIN (
        SELECT batch_number, attempt, count(*) AS n FROM `lake`.`my shop`.`or``ders_shop_tmp` GROUP BY batch_number, attempt
      ) w ON w.batch_number = a.batch AND w.attempt = a.attempt
    )
  )
  WHERE is_next
),
`_tidegate_changes` AS (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `order id`, `select`
      ORDER BY `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC
    ) AS `_tidegate_rank`
    FROM (
    SELECT
      key.`order id` AS `order id`,
      key.`select` AS `select`,
      value.`a``b` AS `a``b`,
      value.`c.d` AS `c.d`,
      value.`größe` AS `größe`,
      value.`it's` AS `it's`,
      value.`名前` AS `名前`,
      batch_number AS `_tidegate_batch`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`my shop`.`or``ders_shop_tmp`
    WHERE op <> 'bad' AND array_contains((SELECT collect_list(attempt) FROM `_tidegate_batches`), attempt)
    )
  )
  WHERE `_tidegate_rank` = 1
)
SELECT t.`order id`, t.`select`, t.`a``b`, t.`c.d`, t.`größe`, t.`it's`, t.`名前`
FROM `_tidegate_rows` t
LEFT ANTI JOIN `_tidegate_changes` s ON t.`order id` <=> s.`order id` AND t.`select` <=> s.`select`
UNION ALL
SELECT
  s.`order id` AS `order id`,
  s.`select` AS `select`,
  s.`a``b` AS `a``b`,
  s.`c.d` AS `c.d`,
  s.`größe` AS `größe`,
  s.`it's` AS `it's`,
  s.`名前` AS `名前`
FROM `_tidegate_changes` s
WHERE s.`_tidegate_op` <> 'd'
