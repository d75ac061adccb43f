-- How many of the rows that the batch has written break the condition; NULL breaks it too.
SELECT COUNT(*) FROM (
  SELECT t.* FROM `my-project`.`shop`.`orders` AS t
  JOIN (
    SELECT ANY_VALUE(`id`) AS `id` FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        batch_number AS `_tidegate_batch`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number IN (6, 7) AND attempt IN ('0ae2', 'it\'s') AND op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `_tidegate_record`.`id`
  ) AS s ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
)
WHERE NOT COALESCE((
amount > 0
), FALSE)
