-- In which partitions the rows of a batch's keys lie now, and how far the pipelines have come that write the table.
SELECT
  ARRAY_AGG(DISTINCT TIMESTAMP_TRUNC(t.`at`, DAY, 'UTC') IGNORE NULLS) AS partitions,
  COUNTIF(TIMESTAMP_TRUNC(t.`at`, DAY, 'UTC') IS NULL) > 0 AS outside,
  (SELECT SUM(version) FROM `my-project`.`shop`.`orders_tidegate_position`) AS versions
FROM `my-project`.`shop`.`orders` AS t
JOIN (
  SELECT ANY_VALUE(`id`) AS `id` FROM (
      SELECT
        key.`id` AS `id`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
  ) AS `_tidegate_record`
  GROUP BY `_tidegate_record`.`id`
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHERE TRUE
  AND (t.`id` BETWEEN 5 AND 90)
