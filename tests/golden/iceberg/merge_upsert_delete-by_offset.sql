-- The last record of each key decides: a delete removes the row, anything else writes it.
MERGE INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `id`
      ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC
    ) AS `_tidegate_rank`
    FROM (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    )
  ) s
  WHERE `_tidegate_rank` = 1
    AND NOT EXISTS (
      SELECT 1 FROM (
        SELECT key.`id` AS `id`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`
        FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 r
        LEFT ANTI JOIN (
          SELECT topic, partition, offset FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
        ) l ON l.topic = r.topic AND l.partition = r.partition AND l.offset = r.offset
        WHERE batch_number > 7 AND op <> 'bad'
      ) t
      WHERE t.`id` <=> s.`id` AND (t.`_tidegate_topic` <> s.`_tidegate_topic` OR t.`_tidegate_offset` > s.`_tidegate_offset`)
    )
) s
ON t.`id` <=> s.`id`
WHEN MATCHED AND s.`_tidegate_op` = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`name` = s.`name`,
  t.`amount` = s.`amount`
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`id`, `name`, `amount`)
VALUES (s.`id`, s.`name`, s.`amount`)
