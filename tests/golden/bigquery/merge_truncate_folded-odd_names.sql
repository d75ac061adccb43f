-- The source table was emptied at offset 900: what its records behind that make is all that there is.
INSERT INTO `my-project`.`my shop`.`or\`ders` (`order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`)
SELECT `order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`
FROM (
  SELECT
    ANY_VALUE(`order id`) AS `order id`,
    ANY_VALUE(`select`) AS `select`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`a\`b` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `a\`b`,
    COALESCE(LOGICAL_OR(`_tidegate_counts`), FALSE) AS `_tidegate_given_1`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`c.d` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `c.d`,
    COALESCE(LOGICAL_OR(`_tidegate_counts`), FALSE) AS `_tidegate_given_2`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`größe` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `größe`,
    COALESCE(LOGICAL_OR(`_tidegate_counts`), FALSE) AS `_tidegate_given_3`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`it's` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `it's`,
    COALESCE(LOGICAL_OR(`_tidegate_counts`), FALSE) AS `_tidegate_given_4`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`名前` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `名前`,
    COALESCE(LOGICAL_OR(`_tidegate_counts`), FALSE) AS `_tidegate_given_5`,
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
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad' AND `offset` > 900
        )
      )
    )
  ) AS `_tidegate_record`
  GROUP BY `_tidegate_record`.`order id`, `_tidegate_record`.`select`
)
WHERE NOT `_tidegate_ends_deleted`
