-- A key's records are folded column by column: each column has the last value that a record gave it, else what the row
-- has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
MERGE INTO `lake`.`my shop`.`or``ders`.`branch_tidegate_shop_7_0af3` t
USING (

  SELECT
    any_value(`order id`) AS `order id`,
    any_value(`select`) AS `select`,
    max_by(`a``b`, CASE WHEN `_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('a`b')), false) THEN `_tidegate_at` END) AS `a``b`,
    coalesce(bool_or(`_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('a`b')), false)), false) AS `_tidegate_given_1`,
    max_by(`c.d`, CASE WHEN `_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('c.d')), false) THEN `_tidegate_at` END) AS `c.d`,
    coalesce(bool_or(`_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('c.d')), false)), false) AS `_tidegate_given_2`,
    max_by(`größe`, CASE WHEN `_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('größe')), false) THEN `_tidegate_at` END) AS `größe`,
    coalesce(bool_or(`_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('größe')), false)), false) AS `_tidegate_given_3`,
    max_by(`it's`, CASE WHEN `_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('it\'s')), false) THEN `_tidegate_at` END) AS `it's`,
    coalesce(bool_or(`_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('it\'s')), false)), false) AS `_tidegate_given_4`,
    max_by(`名前`, CASE WHEN `_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('名前')), false) THEN `_tidegate_at` END) AS `名前`,
    coalesce(bool_or(`_tidegate_counts` AND NOT coalesce(arrays_overlap(`_tidegate_kept`, array('名前')), false)), false) AS `_tidegate_given_5`,
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
          0L AS `_tidegate_life`
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
WHEN MATCHED AND NOT s.`_tidegate_is_row` THEN UPDATE SET t.`_deleted` = true
WHEN MATCHED THEN UPDATE SET
  t.`a``b` = CASE WHEN s.`_tidegate_given_1` THEN s.`a``b` ELSE t.`a``b` END,
  t.`c.d` = CASE WHEN s.`_tidegate_given_2` THEN s.`c.d` ELSE t.`c.d` END,
  t.`größe` = CASE WHEN s.`_tidegate_given_3` THEN s.`größe` ELSE t.`größe` END,
  t.`it's` = CASE WHEN s.`_tidegate_given_4` THEN s.`it's` ELSE t.`it's` END,
  t.`名前` = CASE WHEN s.`_tidegate_given_5` THEN s.`名前` ELSE t.`名前` END,
  t.`_deleted` = s.`_tidegate_ends_deleted`
WHEN NOT MATCHED AND s.`_tidegate_is_row` THEN INSERT (`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`, `_deleted`)
VALUES (s.`order id`, s.`select`, s.`a``b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`, s.`_tidegate_ends_deleted`)
