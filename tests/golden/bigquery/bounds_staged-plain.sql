-- Between which values the keys of a batch lie, and in which partitions the rows would lie that it holds.
SELECT
  MIN(`id`) AS low_0, MAX(`id`) AS high_0, COUNTIF(`id` IS NULL) > 0 AS nulls_0,
  ARRAY_AGG(DISTINCT TIMESTAMP_TRUNC(`at`, DAY, 'UTC') IGNORE NULLS) AS partitions, COUNTIF(TIMESTAMP_TRUNC(`at`, DAY, 'UTC') IS NULL) > 0 AS outside,
  COUNTIF(`_tidegate_op` = 'd') AS deletes
FROM (
      SELECT
        key.`id` AS `id`,
        value.`at` AS `at`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
)
