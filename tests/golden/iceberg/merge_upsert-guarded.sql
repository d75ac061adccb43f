-- Deletes were left out while staging, before the last record of each key was chosen.
MERGE INTO `lake`.`my shop`.`or``ders`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `order id`, `select`
      ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC
    ) AS `_tidegate_rank`
    FROM (
    SELECT
      key.`order id` AS `order id`,
      key.`select` AS `select`,
      value.`a``b` AS `a``b`,
      value.`c.d` AS `c.d`,
      value.`größe` AS `größe`,
      value.`it's` AS `it's`,
      value.`名前` AS `名前`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`my shop`.`or``ders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    )
  ) s
  WHERE `_tidegate_rank` = 1
    AND NOT EXISTS (
      SELECT 1 FROM (
        SELECT key.`order id` AS `order id`, key.`select` AS `select`
        FROM `lake`.`my shop`.`or``ders_shop_tmp` VERSION AS OF 8154213786245100123
        WHERE batch_number > 7 AND op <> 'bad'
      ) t
      WHERE t.`order id` <=> s.`order id` AND t.`select` <=> s.`select`
    )
) s
ON t.`order id` <=> s.`order id` AND t.`select` <=> s.`select`
WHEN MATCHED THEN UPDATE SET
  t.`a``b` = s.`a``b`,
  t.`c.d` = s.`c.d`,
  t.`größe` = s.`größe`,
  t.`it's` = s.`it's`,
  t.`名前` = s.`名前`
WHEN NOT MATCHED THEN INSERT (`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`)
VALUES (s.`order id`, s.`select`, s.`a``b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`)
