-- A key's records are folded column by column: each column has the last value that a record gave it, else what the row
-- has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
-- Columns of a sequence group have the values of the record with the group's highest sequence, unless the row's is higher.
MERGE INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
USING (

  SELECT
    any_value(`id`) AS `id`,
    CASE WHEN bool_or(`_tidegate_counts` AND `va` IS NOT NULL) THEN max_by(`a`, CASE WHEN `_tidegate_counts` AND `va` IS NOT NULL THEN struct(`va` AS sequence, `_tidegate_at` AS at) END)
      ELSE min_by(`a`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) END AS `a`,
    coalesce(bool_or(`_tidegate_counts` AND `va` IS NOT NULL), false) AS `_tidegate_given_1`,
    CASE WHEN bool_or(`_tidegate_counts` AND `va` IS NOT NULL) THEN max_by(`va`, CASE WHEN `_tidegate_counts` AND `va` IS NOT NULL THEN struct(`va` AS sequence, `_tidegate_at` AS at) END)
      ELSE min_by(`va`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) END AS `va`,
    coalesce(bool_or(`_tidegate_counts` AND `va` IS NOT NULL), false) AS `_tidegate_given_2`,
    CASE WHEN bool_or(`_tidegate_counts` AND `vb` IS NOT NULL) THEN max_by(`b`, CASE WHEN `_tidegate_counts` AND `vb` IS NOT NULL THEN struct(`vb` AS sequence, `_tidegate_at` AS at) END)
      ELSE min_by(`b`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) END AS `b`,
    coalesce(bool_or(`_tidegate_counts` AND `vb` IS NOT NULL), false) AS `_tidegate_given_3`,
    CASE WHEN bool_or(`_tidegate_counts` AND `vb` IS NOT NULL) THEN max_by(`vb`, CASE WHEN `_tidegate_counts` AND `vb` IS NOT NULL THEN struct(`vb` AS sequence, `_tidegate_at` AS at) END)
      ELSE min_by(`vb`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) END AS `vb`,
    coalesce(bool_or(`_tidegate_counts` AND `vb` IS NOT NULL), false) AS `_tidegate_given_4`,
    max_by(`name`, CASE WHEN `_tidegate_counts` AND `name` IS NOT NULL THEN `_tidegate_at` END) AS `name`,
    coalesce(bool_or(`_tidegate_counts` AND `name` IS NOT NULL), false) AS `_tidegate_given_5`,
    max(`_tidegate_last_life`) IS NOT NULL AS `_tidegate_is_row`,
    coalesce(max(`_tidegate_last_life`) > 0, false) AS `_tidegate_is_reset`,
    max_by(`_tidegate_op`, `_tidegate_at`) = 'd' AS `_tidegate_ends_deleted`
  FROM (
    SELECT *, `_tidegate_op` <> 'd' AND `_tidegate_life` = `_tidegate_last_life` AS `_tidegate_counts` FROM (
      SELECT *,
        max(CASE WHEN `_tidegate_op` <> 'd' THEN `_tidegate_life` END) OVER (PARTITION BY `id`) AS `_tidegate_last_life`
      FROM (
        SELECT *,
          count_if(`_tidegate_op` = 'd') OVER (
            PARTITION BY `id`
            ORDER BY `_tidegate_at` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_life`
        FROM (
    SELECT
      key.`id` AS `id`,
      value.`a` AS `a`,
      value.`va` AS `va`,
      value.`b` AS `b`,
      value.`vb` AS `vb`,
      value.`name` AS `name`,
      struct(batch_number, offset, topic, partition, i) AS `_tidegate_at`,
      batch_number AS `_tidegate_batch`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number IN (6, 7) AND attempt IN ('0ae2', 'it\'s') AND op <> 'bad'
        )
      )
    )
  )
  GROUP BY `id`
) s
ON t.`id` <=> s.`id`
WHEN MATCHED AND s.`_tidegate_ends_deleted` THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`a` = CASE WHEN s.`_tidegate_given_1` AND coalesce(s.`va` >= t.`va`, true) OR s.`_tidegate_is_reset` THEN s.`a` ELSE t.`a` END,
  t.`va` = CASE WHEN s.`_tidegate_given_2` AND coalesce(s.`va` >= t.`va`, true) OR s.`_tidegate_is_reset` THEN s.`va` ELSE t.`va` END,
  t.`b` = CASE WHEN s.`_tidegate_given_3` AND coalesce(s.`vb` >= t.`vb`, true) OR s.`_tidegate_is_reset` THEN s.`b` ELSE t.`b` END,
  t.`vb` = CASE WHEN s.`_tidegate_given_4` AND coalesce(s.`vb` >= t.`vb`, true) OR s.`_tidegate_is_reset` THEN s.`vb` ELSE t.`vb` END,
  t.`name` = CASE WHEN s.`_tidegate_given_5` OR s.`_tidegate_is_reset` THEN s.`name` ELSE t.`name` END
WHEN NOT MATCHED AND NOT s.`_tidegate_ends_deleted` THEN INSERT (`id`, `a`, `va`, `b`, `vb`, `name`)
VALUES (s.`id`, s.`a`, s.`va`, s.`b`, s.`vb`, s.`name`)
