-- Every record is a row.
INSERT INTO `my-project`.`shop`.`orders` (`order_id`, `line`, `name`, `amount`)
SELECT `order_id`, `line`, `name`, `amount`
FROM (
      SELECT
        key.`order_id` AS `order_id`,
        key.`line` AS `line`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
)
WHERE `_tidegate_op` <> 'd'
