-- Deletes were left out while staging, before the last record of each key was chosen.
MERGE INTO `my-project`.`my shop`.`or\`ders` AS t
USING (
  SELECT s.* FROM (
  SELECT `_tidegate_row`.* FROM (
    SELECT ARRAY_AGG(`_tidegate_record` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] AS `_tidegate_row`
    FROM (
      SELECT
        key.`order id` AS `order id`,
        key.`select` AS `select`,
        value.`a\`b` AS `a\`b`,
        value.`c.d` AS `c.d`,
        value.`größe` AS `größe`,
        value.`it's` AS `it's`,
        value.`名前` AS `名前`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`my shop`.`or\`ders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) AS `_tidegate_record`
    GROUP BY `order id`, `select`
  )
  ) AS s
  LEFT JOIN (
    SELECT key.`order id` AS `order id`, key.`select` AS `select`, TRUE AS `_tidegate_is_later`
    FROM `my-project`.`my shop`.`or\`ders_shop_tmp`
    WHERE batch_number > 7 AND op <> 'bad'
  ) AS t
  ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
  WHERE t.`_tidegate_is_later` IS NULL
) AS s
ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
WHEN MATCHED THEN UPDATE SET
  t.`a\`b` = s.`a\`b`,
  t.`c.d` = s.`c.d`,
  t.`größe` = s.`größe`,
  t.`it's` = s.`it's`,
  t.`名前` = s.`名前`
WHEN NOT MATCHED THEN INSERT (`order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`)
VALUES (s.`order id`, s.`select`, s.`a\`b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`)
