-- A key's records are folded column by column: each column has the last value that a record gave it, else what the row
-- has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
MERGE INTO `lake`.`my shop`.`or``ders`.`branch_tidegate_shop_7_0af3` t
USING (

  SELECT
    any_value(`order id`) AS `order id`,
    any_value(`select`) AS `select`,
    min_by(`a``b`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `a``b`,
    false AS `_tidegate_given_1`,
    min_by(`c.d`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `c.d`,
    false AS `_tidegate_given_2`,
    min_by(`größe`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `größe`,
    false AS `_tidegate_given_3`,
    min_by(`it's`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `it's`,
    false AS `_tidegate_given_4`,
    min_by(`名前`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `名前`,
    false AS `_tidegate_given_5`,
    max(`_tidegate_last_life`) IS NOT NULL AS `_tidegate_is_row`,
    coalesce(max(`_tidegate_last_life`) > 0, false) AS `_tidegate_is_reset`,
    max_by(`_tidegate_op`, `_tidegate_at`) = 'd' AS `_tidegate_ends_deleted`
  FROM (
    SELECT *, `_tidegate_op` <> 'd' AND `_tidegate_life` = `_tidegate_last_life` AS `_tidegate_counts` FROM (
      SELECT *,
        max(CASE WHEN `_tidegate_op` <> 'd' THEN `_tidegate_life` END) OVER (PARTITION BY `order id`, `select`) AS `_tidegate_last_life`
      FROM (
        SELECT *,
          struct(`_tidegate_offset`, `_tidegate_i`) AS `_tidegate_at`,
          count_if(`_tidegate_op` = 'd') OVER (
            PARTITION BY `order id`, `select`
            ORDER BY `_tidegate_offset`, `_tidegate_i` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_life`
        FROM (
    SELECT
      key.`order id` AS `order id`,
      key.`select` AS `select`,
      value.`a``b` AS `a``b`,
      value.`c.d` AS `c.d`,
      value.`größe` AS `größe`,
      value.`it's` AS `it's`,
      value.`名前` AS `名前`,
      kept AS `_tidegate_kept`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`my shop`.`or``ders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
        )
      )
    )
  )
  GROUP BY `order id`, `select`
) s
ON t.`order id` <=> s.`order id` AND t.`select` <=> s.`select`
WHEN MATCHED AND s.`_tidegate_ends_deleted` THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`a``b` = CASE WHEN s.`_tidegate_given_1` OR s.`_tidegate_is_reset` THEN s.`a``b` ELSE t.`a``b` END,
  t.`c.d` = CASE WHEN s.`_tidegate_given_2` OR s.`_tidegate_is_reset` THEN s.`c.d` ELSE t.`c.d` END,
  t.`größe` = CASE WHEN s.`_tidegate_given_3` OR s.`_tidegate_is_reset` THEN s.`größe` ELSE t.`größe` END,
  t.`it's` = CASE WHEN s.`_tidegate_given_4` OR s.`_tidegate_is_reset` THEN s.`it's` ELSE t.`it's` END,
  t.`名前` = CASE WHEN s.`_tidegate_given_5` OR s.`_tidegate_is_reset` THEN s.`名前` ELSE t.`名前` END
WHEN NOT MATCHED AND NOT s.`_tidegate_ends_deleted` THEN INSERT (`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`)
VALUES (s.`order id`, s.`select`, s.`a``b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`)
