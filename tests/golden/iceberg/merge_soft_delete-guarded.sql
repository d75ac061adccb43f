-- The last record of each key says whether the row counts as deleted, its last upsert what stands in it: a row that
-- comes and goes within one batch is left as it would be by two.
MERGE INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT * FROM (
    SELECT *,
      max(struct(`_tidegate_offset`, `_tidegate_i`, `_tidegate_op`)) OVER (
        PARTITION BY `id`
      ).`_tidegate_op` = 'd' AS `_deleted`,
      row_number() OVER (
        PARTITION BY `id`
        ORDER BY `_tidegate_op` = 'd', `_tidegate_offset` DESC, `_tidegate_i` DESC
      ) AS `_tidegate_rank`
    FROM (
    SELECT s.* FROM (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) s
    WHERE true
    AND NOT EXISTS (
      SELECT 1 FROM (
        SELECT key.`id` AS `id`
        FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
        WHERE batch_number > 7 AND op <> 'bad'
      ) t
      WHERE t.`id` <=> s.`id`
    )
    )
  )
  WHERE `_tidegate_rank` = 1
) s
ON t.`id` <=> s.`id`
WHEN MATCHED AND s.`_tidegate_op` = 'd' THEN UPDATE SET t.`_deleted` = true
WHEN MATCHED THEN UPDATE SET
  t.`name` = s.`name`,
  t.`amount` = s.`amount`,
  t.`_deleted` = s.`_deleted`
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`id`, `name`, `amount`, `_deleted`)
VALUES (s.`id`, s.`name`, s.`amount`, s.`_deleted`)
