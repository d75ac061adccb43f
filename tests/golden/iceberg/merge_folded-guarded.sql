-- A key's records are folded column by column: each column has the last value that a record gave it, else what the row
-- has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
MERGE INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
USING (

  SELECT
    any_value(`id`) AS `id`,
    max_by(`name`, CASE WHEN `_tidegate_counts` AND `name` IS NOT NULL THEN `_tidegate_at` END) AS `name`,
    coalesce(bool_or(`_tidegate_counts` AND `name` IS NOT NULL), false) AS `_tidegate_given_1`,
    max_by(`amount`, CASE WHEN `_tidegate_counts` THEN `_tidegate_at` END) AS `amount`,
    coalesce(bool_or(`_tidegate_counts`), false) AS `_tidegate_given_2`,
    max(`_tidegate_last_life`) IS NOT NULL AS `_tidegate_is_row`,
    coalesce(max(`_tidegate_last_life`) > 0, false) AS `_tidegate_is_reset`,
    max_by(`_tidegate_op`, `_tidegate_at`) = 'd' AS `_tidegate_ends_deleted`
  FROM (
    SELECT *, `_tidegate_op` <> 'd' AND `_tidegate_life` = `_tidegate_last_life` AS `_tidegate_counts` FROM (
      SELECT *,
        max(CASE WHEN `_tidegate_op` <> 'd' THEN `_tidegate_life` END) OVER (PARTITION BY `id`) AS `_tidegate_last_life`
      FROM (
        SELECT *,
          struct(`_tidegate_offset`, `_tidegate_i`) AS `_tidegate_at`,
          count_if(`_tidegate_op` = 'd') OVER (
            PARTITION BY `id`
            ORDER BY `_tidegate_offset`, `_tidegate_i` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_life`
        FROM (
    SELECT s.* FROM (
    SELECT
      key.`id` AS `id`,
      value.`name` AS `name`,
      value.`amount` AS `amount`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    ) s
    WHERE true
    AND NOT EXISTS (
      SELECT 1 FROM (
        SELECT key.`id` AS `id`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`
        FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 r
        LEFT ANTI JOIN (
          SELECT topic, partition, offset FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
        ) l ON l.topic = r.topic AND l.partition = r.partition AND l.offset = r.offset
        WHERE batch_number > 7 AND op <> 'bad'
      ) t
      WHERE t.`id` <=> s.`id` AND (t.`_tidegate_topic` <> s.`_tidegate_topic` OR t.`_tidegate_offset` > s.`_tidegate_offset`)
    )
        )
      )
    )
  )
  GROUP BY `id`
) s
ON t.`id` <=> s.`id`
WHEN MATCHED AND s.`_tidegate_ends_deleted` THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`name` = CASE WHEN s.`_tidegate_given_1` OR s.`_tidegate_is_reset` THEN s.`name` ELSE t.`name` END,
  t.`amount` = CASE WHEN s.`_tidegate_given_2` OR s.`_tidegate_is_reset` THEN s.`amount` ELSE t.`amount` END
WHEN NOT MATCHED AND NOT s.`_tidegate_ends_deleted` THEN INSERT (`id`, `name`, `amount`)
VALUES (s.`id`, s.`name`, s.`amount`)
