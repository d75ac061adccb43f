-- Append, and a delete removes its key's earlier rows: in the table, and in the batch before it.
MERGE INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT * FROM (
    SELECT *,
      max(CASE WHEN `_tidegate_op` = 'd' THEN struct(`_tidegate_batch`, `_tidegate_offset`, `_tidegate_i`) END) OVER (
        PARTITION BY `id`
      ) AS `_tidegate_last_delete`
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
  )
  WHERE `_tidegate_last_delete` IS NULL
     OR struct(`_tidegate_batch`, `_tidegate_offset`, `_tidegate_i`) >= `_tidegate_last_delete`
) s
ON s.`_tidegate_op` = 'd' AND t.`id` <=> s.`id`
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`id`, `name`, `amount`)
VALUES (s.`id`, s.`name`, s.`amount`)
