-- Append, and a delete removes its key's earlier rows: in the table, and in the batch before it.
MERGE INTO `my-project`.`my shop`.`or\`ders` AS t
USING (
  SELECT * FROM (
    SELECT *,
      COUNTIF(`_tidegate_op` = 'd') OVER (
        PARTITION BY `order id`, `select`
        ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
      ) AS `_tidegate_later_deletes`
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
    )
  )
  WHERE `_tidegate_later_deletes` = 0
) AS s
ON s.`_tidegate_op` = 'd' AND (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED AND s.`_tidegate_op` <> 'd' THEN INSERT (`order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`)
VALUES (s.`order id`, s.`select`, s.`a\`b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`)
