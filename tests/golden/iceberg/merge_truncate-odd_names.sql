-- The source table was emptied at offset 0: what its records behind that make is all that there is.
INSERT OVERWRITE `lake`.`my shop`.`or``ders`.`branch_tidegate_shop_7_0af3` (`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`)
SELECT `order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`
FROM (
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
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad' AND offset > 0
    )
  )
  WHERE `_tidegate_rank` = 1
)
WHERE `_tidegate_op` <> 'd'
