-- Every record is a row.
INSERT INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` (`id`, `name`, `amount`)
SELECT `id`, `name`, `amount`
FROM (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      batch_number AS `_tidegate_batch`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number IN (6, 7) AND attempt IN ('0ae2', 'it\'s') AND op <> 'bad'
)
WHERE `_tidegate_op` <> 'd'
