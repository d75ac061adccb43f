-- Every record is a row.
INSERT INTO `my-project`.`shop`.`orders` (`id`, `name`, `amount`)
SELECT `id`, `name`, `amount`
FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        batch_number AS `_tidegate_batch`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number IN (6, 7) AND attempt IN ('0ae2', 'it\'s') AND op <> 'bad'
)
WHERE `_tidegate_op` <> 'd'
