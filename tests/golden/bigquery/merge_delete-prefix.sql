-- Append, and a delete removes its key's earlier rows: in the table, and in the batch before it.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT * FROM (
    SELECT *,
      COUNTIF(`_tidegate_op` = 'd') OVER (
        PARTITION BY `k_id`, `k_line`
        ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS `_tidegate_later_deletes`
    FROM (
      SELECT
        key.`id` AS `k_id`,
        key.`line` AS `k_line`,
        value.`id` AS `id`,
        value.`name` AS `name`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    )
  )
  WHERE `_tidegate_later_deletes` = 0
) AS s
ON s.`_tidegate_op` = 'd' AND (t.`k_id` = s.`k_id` OR (t.`k_id` IS NULL AND s.`k_id` IS NULL)) AND (t.`k_line` = s.`k_line` OR (t.`k_line` IS NULL AND s.`k_line` IS NULL))
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`k_id`, `k_line`, `id`, `name`)
VALUES (s.`k_id`, s.`k_line`, s.`id`, s.`name`)
