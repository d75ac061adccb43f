-- A key's staged records are folded column by column: each column has the last value that a record gave it, else what the
-- row has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
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
  SELECT `id`, `a`, `va`, `b`, `vb`, `name`, `_deleted`
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

  SELECT
    any_value(`id`) AS `id`,
    CASE WHEN bool_or(`_tidegate_counts` AND `va` IS NOT NULL) THEN max_by(`a`, CASE WHEN `_tidegate_counts` AND `va` IS NOT NULL THEN struct(`va` AS sequence, `_tidegate_at` AS at) END)
      ELSE min_by(`a`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) END AS `a`,
    coalesce(bool_or(`_tidegate_counts` AND `va` IS NOT NULL), false) AS `_tidegate_given_1`,
    CASE WHEN bool_or(`_tidegate_counts` AND `va` IS NOT NULL) THEN max_by(`va`, CASE WHEN `_tidegate_counts` AND `va` IS NOT NULL THEN struct(`va` AS sequence, `_tidegate_at` AS at) END)
      ELSE min_by(`va`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) END AS `va`,
    coalesce(bool_or(`_tidegate_counts` AND `va` IS NOT NULL), false) AS `_tidegate_given_2`,
    CASE WHEN bool_or(`_tidegate_counts` AND `vb` IS NOT NULL) THEN max_by(`b`, CASE WHEN `_tidegate_counts` AND `vb` IS NOT NULL THEN struct(`vb` AS sequence, `_tidegate_at` AS at) END)
      ELSE min_by(`b`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) END AS `b`,
    coalesce(bool_or(`_tidegate_counts` AND `vb` IS NOT NULL), false) AS `_tidegate_given_3`,
    CASE WHEN bool_or(`_tidegate_counts` AND `vb` IS NOT NULL) THEN max_by(`vb`, CASE WHEN `_tidegate_counts` AND `vb` IS NOT NULL THEN struct(`vb` AS sequence, `_tidegate_at` AS at) END)
      ELSE min_by(`vb`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) END AS `vb`,
    coalesce(bool_or(`_tidegate_counts` AND `vb` IS NOT NULL), false) AS `_tidegate_given_4`,
    max_by(`name`, CASE WHEN `_tidegate_counts` AND `name` IS NOT NULL THEN `_tidegate_at` END) AS `name`,
    coalesce(bool_or(`_tidegate_counts` AND `name` IS NOT NULL), false) AS `_tidegate_given_5`,
    max(`_tidegate_last_life`) IS NOT NULL AS `_tidegate_is_row`,
    coalesce(max(`_tidegate_last_life`) > 0, false) AS `_tidegate_is_reset`,
    max_by(`_tidegate_op`, `_tidegate_at`) = 'd' AS `_tidegate_ends_deleted`
  FROM (
    SELECT *, `_tidegate_op` <> 'd' AND `_tidegate_life` = `_tidegate_last_life` AS `_tidegate_counts` FROM (
      SELECT *,
        max(CASE WHEN `_tidegate_op` <> 'd' THEN `_tidegate_life` END) OVER (PARTITION BY `id`) AS `_tidegate_last_life`
      FROM (
        SELECT *,
          0L AS `_tidegate_life`
        FROM (
    SELECT
      key.`id` AS `id`,
      value.`a` AS `a`,
      value.`va` AS `va`,
      value.`b` AS `b`,
      value.`vb` AS `vb`,
      value.`name` AS `name`,
      struct(batch_number, offset, topic, partition, i) AS `_tidegate_at`,
      batch_number AS `_tidegate_batch`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp`
    WHERE op <> 'bad' AND array_contains((SELECT collect_list(attempt) FROM `_tidegate_batches`), attempt)
        )
      )
    )
  )
  GROUP BY `id`
)
SELECT t.`id`, t.`a`, t.`va`, t.`b`, t.`vb`, t.`name`, t.`_deleted`
FROM `_tidegate_rows` t
LEFT ANTI JOIN `_tidegate_changes` s ON t.`id` <=> s.`id`
UNION ALL
SELECT
  s.`id` AS `id`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_1` AND coalesce(s.`va` >= t.`va`, true) THEN s.`a` ELSE t.`a` END AS `a`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_2` AND coalesce(s.`va` >= t.`va`, true) THEN s.`va` ELSE t.`va` END AS `va`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_3` AND coalesce(s.`vb` >= t.`vb`, true) THEN s.`b` ELSE t.`b` END AS `b`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_4` AND coalesce(s.`vb` >= t.`vb`, true) THEN s.`vb` ELSE t.`vb` END AS `vb`,
  CASE WHEN t.`_tidegate_there` IS NULL OR s.`_tidegate_given_5` THEN s.`name` ELSE t.`name` END AS `name`,
  s.`_tidegate_ends_deleted` OR NOT s.`_tidegate_is_row` AS `_deleted`
FROM `_tidegate_changes` s
LEFT JOIN (
  SELECT t.*, true AS `_tidegate_there` FROM `_tidegate_rows` t LEFT SEMI JOIN `_tidegate_changes` s ON t.`id` <=> s.`id`
) t ON t.`id` <=> s.`id`
WHERE t.`_tidegate_there` OR s.`_tidegate_is_row`
