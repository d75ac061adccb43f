-- Only keys without a later record up to the table's position; of those, only the ones that have no row get one.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT s.* FROM (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key.`id` AS `id`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `id`
  )
  ) AS s
  LEFT JOIN (
    SELECT key.`id` AS `id`, TRUE AS `_tidegate_is_later`
    FROM `my-project`.`shop`.`orders_shop_tmp`
    WHERE batch_number > 7 AND op <> 'bad'
  ) AS t
  ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
  WHERE t.`_tidegate_is_later` IS NULL
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHEN MATCHED AND s.`_tidegate_op` = 'd' THEN DELETE
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`id`)
VALUES (s.`id`)
