-- Every record is a row.
INSERT INTO `my-project`.`my shop`.`or\`ders` (`order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`)
SELECT `order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`
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
WHERE `_tidegate_op` <> 'd'
