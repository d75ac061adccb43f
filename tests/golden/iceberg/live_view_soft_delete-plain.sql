-- The last staged record of each key says whether the row counts as deleted, its last upsert what stands in it.
WITH
-- where the table stands; no row after a rollback, so that nothing staged counts until the pipeline has gone on
`_tidegate_position` AS (
  SELECT
    from_json(max_by(s.summary['tidegate.shop.position'], h.made_current_at), 'MAP<STRING, MAP<STRING, BIGINT>>') AS offsets,
    CAST(max_by(s.summary['tidegate.shop.batch'], h.made_current_at) AS BIGINT) AS batch
  FROM `lake`.`shop`.`orders`.refs r
  CROSS JOIN `lake`.`shop`.`orders`.snapshots s
  JOIN `lake`.`shop`.`orders`.history h ON h.snapshot_id = s.snapshot_id
  WHERE r.name = 'tidegate_shop' AND r.type = 'TAG'
    AND h.is_current_ancestor AND s.summary['tidegate.shop.position'] IS NOT NULL
  HAVING bool_or(h.snapshot_id = r.snapshot_id)
),
`_tidegate_rows` AS (
  SELECT `id`, `name`, `amount`, `_deleted`
  FROM `lake`.`shop`.`orders`
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
    FROM `lake`.`shop`.`orders_shop_tmp`.refs r
    JOIN `lake`.`shop`.`orders_shop_tmp`.snapshots s ON s.snapshot_id = r.snapshot_id
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
        SELECT batch_number, attempt, count(*) AS n FROM `lake`.`shop`.`orders_shop_tmp` GROUP BY batch_number, attempt
      ) w ON w.batch_number = a.batch AND w.attempt = a.attempt
    )
  )
  WHERE is_next
),
`_tidegate_changes` AS (
  SELECT * FROM (
    SELECT *,
      max(struct(`_tidegate_batch`, `_tidegate_offset`, `_tidegate_i`, `_tidegate_op`)) OVER (
        PARTITION BY `id`
      ).`_tidegate_op` = 'd' AS `_deleted`,
      row_number() OVER (
        PARTITION BY `id`
        ORDER BY `_tidegate_op` = 'd', `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC
      ) AS `_tidegate_rank`
    FROM (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      batch_number AS `_tidegate_batch`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp`
    WHERE op <> 'bad' AND array_contains((SELECT collect_list(attempt) FROM `_tidegate_batches`), attempt)
    )
  )
  WHERE `_tidegate_rank` = 1
)
SELECT t.`id`, t.`name`, t.`amount`, t.`_deleted`
FROM `_tidegate_rows` t
LEFT ANTI JOIN `_tidegate_changes` s ON t.`id` <=> s.`id`
UNION ALL
SELECT
  s.`id` AS `id`,
  CASE WHEN s.`_tidegate_op` = 'd' THEN t.`name` ELSE s.`name` END AS `name`,
  CASE WHEN s.`_tidegate_op` = 'd' THEN t.`amount` ELSE s.`amount` END AS `amount`,
  s.`_tidegate_op` = 'd' OR s.`_deleted` AS `_deleted`
FROM `_tidegate_changes` s
LEFT JOIN (
  SELECT t.*, true AS `_tidegate_there` FROM `_tidegate_rows` t LEFT SEMI JOIN `_tidegate_changes` s ON t.`id` <=> s.`id`
) t ON t.`id` <=> s.`id`
WHERE s.`_tidegate_op` <> 'd' OR t.`_tidegate_there`
