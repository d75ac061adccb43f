-- How many keys the branch changes against main, a checksum of all changes, and whether the condition on the counts holds.
WITH `_tidegate_places` AS (
  SELECT t.`k`.`id` AS `_tidegate_key_1`, t.`k`.`at`.`zone` AS `_tidegate_key_2`,
    1 AS `_tidegate_place`,
    true AS `_tidegate_lives`,
    xxhash64(t.`id`, t.`id` IS NULL) AS `_tidegate_hash`
  FROM `lake`.`shop`.`orders` t
  LEFT SEMI JOIN (
    SELECT
      key.`k` AS `k`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
  ) s ON t.`k`.`id` <=> s.`k`.`id` AND t.`k`.`at`.`zone` <=> s.`k`.`at`.`zone`
  UNION ALL
  SELECT t.`k`.`id` AS `_tidegate_key_1`, t.`k`.`at`.`zone` AS `_tidegate_key_2`,
    2 AS `_tidegate_place`,
    true AS `_tidegate_lives`,
    xxhash64(t.`id`, t.`id` IS NULL) AS `_tidegate_hash`
  FROM `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
  LEFT SEMI JOIN (
    SELECT
      key.`k` AS `k`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
  ) s ON t.`k`.`id` <=> s.`k`.`id` AND t.`k`.`at`.`zone` <=> s.`k`.`at`.`zone`
),
`_tidegate_changed` AS (
  SELECT *, CASE
    WHEN `_tidegate_rows_1` = 0 AND `_tidegate_rows_2` > 0 THEN 'inserted'
    WHEN `_tidegate_rows_1` > 0 AND `_tidegate_rows_2` = 0 THEN 'deleted'
    ELSE 'updated'
  END AS `_tidegate_kind` FROM (
    SELECT `_tidegate_key_1`, `_tidegate_key_2`,
      count_if(`_tidegate_place` = 1 AND `_tidegate_lives`) AS `_tidegate_rows_1`,
      count_if(`_tidegate_place` = 1) AS `_tidegate_count_1`,
      coalesce(sum(`_tidegate_hash` & 4294967295L) FILTER (WHERE `_tidegate_place` = 1), 0L) AS `_tidegate_low_1`,
      coalesce(sum(shiftrightunsigned(`_tidegate_hash`, 32)) FILTER (WHERE `_tidegate_place` = 1), 0L) AS `_tidegate_high_1`,
      count_if(`_tidegate_place` = 2 AND `_tidegate_lives`) AS `_tidegate_rows_2`,
      count_if(`_tidegate_place` = 2) AS `_tidegate_count_2`,
      coalesce(sum(`_tidegate_hash` & 4294967295L) FILTER (WHERE `_tidegate_place` = 2), 0L) AS `_tidegate_low_2`,
      coalesce(sum(shiftrightunsigned(`_tidegate_hash`, 32)) FILTER (WHERE `_tidegate_place` = 2), 0L) AS `_tidegate_high_2`
    FROM `_tidegate_places`
    GROUP BY `_tidegate_key_1`, `_tidegate_key_2`
  )
  WHERE `_tidegate_count_1` <> `_tidegate_count_2` OR `_tidegate_low_1` <> `_tidegate_low_2` OR `_tidegate_high_1` <> `_tidegate_high_2`
)
SELECT to_json(named_struct(
  'inserted', inserted, 'updated', updated, 'deleted', deleted, 'rows', `rows`, 'table_rows', table_rows, 'checksum', `_tidegate_checksum`,
  'when', coalesce((
deleted > 9 -- or so
), true)
)) FROM (
  SELECT *, inserted + updated + deleted AS `rows` FROM (
    SELECT
      count_if(`_tidegate_kind` = 'inserted') AS inserted,
      count_if(`_tidegate_kind` = 'updated') AS updated,
      count_if(`_tidegate_kind` = 'deleted') AS deleted,
      (
        SELECT count(1) FROM `lake`.`shop`.`orders` t
      ) AS table_rows,
      concat_ws('.', coalesce(sum(`_tidegate_change_hash` & 4294967295L), 0L), coalesce(sum(shiftrightunsigned(`_tidegate_change_hash`, 32)), 0L)) AS `_tidegate_checksum`
    FROM (
      SELECT `_tidegate_kind`, xxhash64(`_tidegate_key_1`, `_tidegate_key_1` IS NULL, `_tidegate_key_2`, `_tidegate_key_2` IS NULL, `_tidegate_count_1`, `_tidegate_low_1`, `_tidegate_high_1`, `_tidegate_count_2`, `_tidegate_low_2`, `_tidegate_high_2`) AS `_tidegate_change_hash`
      FROM `_tidegate_changed`
    )
  )
)
