-- The last record of each key decides: a delete removes the row, anything else writes it.
MERGE INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `order_id`, `line`
      ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC
    ) AS `_tidegate_rank`
    FROM (
    SELECT
      key.`order_id` AS `order_id`,
      key.`line` AS `line`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    )
  )
  WHERE `_tidegate_rank` = 1
) s
ON t.`order_id` = s.`order_id` AND t.`line` <=> s.`line` AND (t.`order_id` BETWEEN CAST('-5' AS BIGINT) AND CAST('900' AS BIGINT)) AND t.`order_id` IN (-5L, 900L) AND (t.`line` BETWEEN 'a' AND 'it\'s' OR t.`line` IS NULL)
WHEN MATCHED AND s.`_tidegate_op` = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`name` = s.`name`,
  t.`amount` = s.`amount`
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`order_id`, `line`, `name`, `amount`)
VALUES (s.`order_id`, s.`line`, s.`name`, s.`amount`)
