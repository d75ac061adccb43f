-- Deletes were left out while staging, before the last record of each key was chosen.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key.`order_id` AS `order_id`,
        key.`line` AS `line`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `order_id`, `line`
  )
) AS s
ON (t.`order_id` = s.`order_id` OR (t.`order_id` IS NULL AND s.`order_id` IS NULL)) AND (t.`line` = s.`line` OR (t.`line` IS NULL AND s.`line` IS NULL))
  AND (t.`order_id` BETWEEN CAST('-5' AS BIGINT) AND CAST('900' AS BIGINT))
  AND (t.`line` BETWEEN 'a' AND 'it\'s' OR t.`line` IS NULL)
WHEN MATCHED THEN UPDATE SET
  t.`name` = s.`name`,
  t.`amount` = s.`amount`
WHEN NOT MATCHED THEN INSERT (`order_id`, `line`, `name`, `amount`)
VALUES (s.`order_id`, s.`line`, s.`name`, s.`amount`)
