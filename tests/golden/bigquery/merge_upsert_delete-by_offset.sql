-- The last record of each key decides: a delete removes the row, anything else writes it.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT s.* FROM (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `id`
  )
  ) AS s
  LEFT JOIN (
    SELECT key.`id` AS `id`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, TRUE AS `_tidegate_is_later`
    FROM `my-project`.`shop`.`orders_shop_tmp` AS r
    WHERE batch_number > 7 AND op <> 'bad'
      AND NOT EXISTS (
        SELECT 1 FROM `my-project`.`shop`.`orders_shop_tmp` AS l
        WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
          AND l.topic = r.topic AND l.`partition` = r.`partition` AND l.`offset` = r.`offset`
      )
  ) AS t
  ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
    AND (t.`_tidegate_topic` <> s.`_tidegate_topic` OR t.`_tidegate_offset` > s.`_tidegate_offset`)
  WHERE t.`_tidegate_is_later` IS NULL
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHEN MATCHED AND s.`_tidegate_op` = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`name` = s.`name`,
  t.`amount` = s.`amount`
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`id`, `name`, `amount`)
VALUES (s.`id`, s.`name`, s.`amount`)
