-- The source table was emptied at offset 0: what its records behind that make is all that there is.
MERGE INTO `my-project`.`my shop`.`or\`ders` AS t
USING (
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
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad' AND `offset` > 0
    ) AS `_tidegate_record`
    GROUP BY `order id`, `select`
  )
) AS s
ON FALSE
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`)
VALUES (s.`order id`, s.`select`, s.`a\`b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`)

WHEN NOT MATCHED BY SOURCE THEN DELETE
