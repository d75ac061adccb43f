-- The last record of each key decides: a delete removes the row, anything else writes it.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT s.* FROM (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key AS `k`,
        value.`id` AS `id`,
        value.`name` AS `name`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `k`.`id`, `k`.`line`
  )
  ) AS s
  LEFT JOIN (
    SELECT key AS `k`, TRUE AS `_tidegate_is_later`
    FROM `my-project`.`shop`.`orders_shop_tmp`
    WHERE batch_number > 7 AND op <> 'bad'
  ) AS t
  ON (t.`k`.`id` = s.`k`.`id` OR (t.`k`.`id` IS NULL AND s.`k`.`id` IS NULL)) AND (t.`k`.`line` = s.`k`.`line` OR (t.`k`.`line` IS NULL AND s.`k`.`line` IS NULL))
  WHERE t.`_tidegate_is_later` IS NULL
) AS s
ON (t.`k`.`id` = s.`k`.`id` OR (t.`k`.`id` IS NULL AND s.`k`.`id` IS NULL)) AND (t.`k`.`line` = s.`k`.`line` OR (t.`k`.`line` IS NULL AND s.`k`.`line` IS NULL))
WHEN MATCHED AND s.`_tidegate_op` = 'd' THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`id` = s.`id`,
  t.`name` = s.`name`
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`k`, `id`, `name`)
VALUES (s.`k`, s.`id`, s.`name`)
