-- A key's records are folded column by column: each column has the last value that a record gave it, else what the row
-- has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
MERGE INTO `my-project`.`my shop`.`or\`ders` AS t
USING (
  SELECT
    ANY_VALUE(`order id`) AS `order id`,
    ANY_VALUE(`select`) AS `select`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`a\`b` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v AS `a\`b`,
    FALSE AS `_tidegate_given_1`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`c.d` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v AS `c.d`,
    FALSE AS `_tidegate_given_2`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`größe` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v AS `größe`,
    FALSE AS `_tidegate_given_3`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`it's` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v AS `it's`,
    FALSE AS `_tidegate_given_4`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`名前` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v AS `名前`,
    FALSE AS `_tidegate_given_5`,
    MAX(`_tidegate_last_life`) IS NOT NULL AS `_tidegate_is_row`,
    COALESCE(MAX(`_tidegate_last_life`) > 0, FALSE) AS `_tidegate_is_reset`,
    ARRAY_AGG(`_tidegate_op` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] = 'd' AS `_tidegate_ends_deleted`
  FROM (
    SELECT *, `_tidegate_op` <> 'd' AND `_tidegate_life` = `_tidegate_last_life` AS `_tidegate_counts` FROM (
      SELECT *, MAX(IF(`_tidegate_op` <> 'd', `_tidegate_life`, NULL)) OVER (PARTITION BY `order id`, `select`) AS `_tidegate_last_life`
      FROM (
        SELECT *,
          COUNTIF(`_tidegate_op` = 'd') OVER (
            PARTITION BY `order id`, `select`
            ORDER BY `_tidegate_offset`, `_tidegate_i` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_life`
        FROM (
      SELECT
        key.`order id` AS `order id`,
        key.`select` AS `select`,
        value.`a\`b` AS `a\`b`,
        value.`c.d` AS `c.d`,
        value.`größe` AS `größe`,
        value.`it's` AS `it's`,
        value.`名前` AS `名前`,
        kept AS `_tidegate_kept`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`my shop`.`or\`ders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
        )
      )
    )
  ) AS `_tidegate_record`
  GROUP BY `_tidegate_record`.`order id`, `_tidegate_record`.`select`
) AS s
ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
WHEN MATCHED AND s.`_tidegate_ends_deleted` THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`a\`b` = IF(s.`_tidegate_given_1` OR s.`_tidegate_is_reset`, s.`a\`b`, t.`a\`b`),
  t.`c.d` = IF(s.`_tidegate_given_2` OR s.`_tidegate_is_reset`, s.`c.d`, t.`c.d`),
  t.`größe` = IF(s.`_tidegate_given_3` OR s.`_tidegate_is_reset`, s.`größe`, t.`größe`),
  t.`it's` = IF(s.`_tidegate_given_4` OR s.`_tidegate_is_reset`, s.`it's`, t.`it's`),
  t.`名前` = IF(s.`_tidegate_given_5` OR s.`_tidegate_is_reset`, s.`名前`, t.`名前`)
WHEN NOT MATCHED AND NOT s.`_tidegate_ends_deleted` THEN INSERT (`order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`)
VALUES (s.`order id`, s.`select`, s.`a\`b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`)
