-- Append, and a delete removes its key's earlier rows: in the table, and in the batch before it.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT * FROM (
    SELECT *,
      COUNTIF(`_tidegate_op` = 'd') OVER (
        PARTITION BY `k`.`id`, `k`.`at`.`zone`
        ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS `_tidegate_later_deletes`
    FROM (
      SELECT
        key.`k` AS `k`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    )
  )
  WHERE `_tidegate_later_deletes` = 0
) AS s
ON s.`_tidegate_op` = 'd' AND (t.`k`.`id` = s.`k`.`id` OR (t.`k`.`id` IS NULL AND s.`k`.`id` IS NULL)) AND (t.`k`.`at`.`zone` = s.`k`.`at`.`zone` OR (t.`k`.`at`.`zone` IS NULL AND s.`k`.`at`.`zone` IS NULL))
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`k`, `name`, `amount`)
VALUES (s.`k`, s.`name`, s.`amount`)
