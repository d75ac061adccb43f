-- The source table was emptied at offset 900: what its records behind that make is all that there is.
INSERT INTO `my-project`.`shop`.`orders` (`k`, `name`, `amount`)
SELECT `k`, `name`, `amount`
FROM (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key.`k` AS `k`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad' AND `offset` > 900
    ) AS `_tidegate_record`
    GROUP BY `k`.`id`, `k`.`at`.`zone`
  )
)
WHERE `_tidegate_op` <> 'd'
