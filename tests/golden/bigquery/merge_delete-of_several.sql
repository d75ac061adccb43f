-- Append, and a delete removes its key's earlier rows: in the table, and in the batch before it.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT * FROM (
    SELECT *,
      COUNTIF(`_tidegate_op` = 'd') OVER (
        PARTITION BY `id`
        ORDER BY `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS `_tidegate_later_deletes`
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
  )
  WHERE `_tidegate_later_deletes` = 0
) AS s
ON s.`_tidegate_op` = 'd' AND (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`id`, `name`, `amount`)
VALUES (s.`id`, s.`name`, s.`amount`)
