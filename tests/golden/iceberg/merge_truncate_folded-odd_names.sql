-- The source table was emptied at offset 900: what its records behind that make is all that there is.
INSERT OVERWRITE `lake`.`my shop`.`or``ders`.`branch_tidegate_shop_7_0af3` (`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`)
SELECT `order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`
FROM (

  SELECT
    any_value(`order id`) AS `order id`,
    any_value(`select`) AS `select`,
    max_by(`a``b`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `a``b`,
    coalesce(bool_or(`_tidegate_counts`), false) AS `_tidegate_given_1`,
    max_by(`c.d`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `c.d`,
    coalesce(bool_or(`_tidegate_counts`), false) AS `_tidegate_given_2`,
    max_by(`größe`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `größe`,
    coalesce(bool_or(`_tidegate_counts`), false) AS `_tidegate_given_3`,
    max_by(`it's`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `it's`,
    coalesce(bool_or(`_tidegate_counts`), false) AS `_tidegate_given_4`,
    max_by(`名前`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `名前`,
    coalesce(bool_or(`_tidegate_counts`), false) AS `_tidegate_given_5`,
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
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad' AND offset > 900
        )
      )
    )
  )
  GROUP BY `order id`, `select`
)
WHERE NOT `_tidegate_ends_deleted`
