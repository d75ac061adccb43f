-- The last record of each key decides: a delete removes the row, anything else writes it.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key.`id` AS `k_id`,
        key.`line` AS `k_line`,
        value.`id` AS `id`,
        value.`name` AS `name`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `k_id`, `k_line`
  )
) AS s
ON (t.`k_id` = s.`k_id` OR (t.`k_id` IS NULL AND s.`k_id` IS NULL)) AND (t.`k_line` = s.`k_line` OR (t.`k_line` IS NULL AND s.`k_line` IS NULL))
WHEN MATCHED AND s.`_tidegate_op` = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`id` = s.`id`,
  t.`name` = s.`name`
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`k_id`, `k_line`, `id`, `name`)
VALUES (s.`k_id`, s.`k_line`, s.`id`, s.`name`)
