-- A key's records are folded column by column: each column has the last value that a record gave it, else what the row
-- has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT
    ANY_VALUE(`id`) AS `id`,
    ARRAY_AGG(IF(`_tidegate_counts` AND `name` IS NOT NULL, STRUCT(`name` AS v), NULL) ORDER BY `_tidegate_counts` AND `name` IS NOT NULL DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `name`,
    COALESCE(LOGICAL_OR(`_tidegate_counts` AND `name` IS NOT NULL), FALSE) AS `_tidegate_given_1`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`amount` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `amount`,
    COALESCE(LOGICAL_OR(`_tidegate_counts`), FALSE) AS `_tidegate_given_2`,
    MAX(`_tidegate_last_life`) IS NOT NULL AS `_tidegate_is_row`,
    COALESCE(MAX(`_tidegate_last_life`) > 0, FALSE) AS `_tidegate_is_reset`,
    ARRAY_AGG(`_tidegate_op` ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] = 'd' AS `_tidegate_ends_deleted`
  FROM (
    SELECT *, `_tidegate_op` <> 'd' AND `_tidegate_life` = `_tidegate_last_life` AS `_tidegate_counts` FROM (
      SELECT *, MAX(IF(`_tidegate_op` <> 'd', `_tidegate_life`, NULL)) OVER (PARTITION BY `id`) AS `_tidegate_last_life`
      FROM (
        SELECT *,
          COUNTIF(`_tidegate_op` = 'd') OVER (
            PARTITION BY `id`
            ORDER BY `_tidegate_offset`, `_tidegate_i` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_life`
        FROM (
      SELECT s.* FROM (
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
      ) AS s
  LEFT JOIN (
    SELECT key.`id` AS `id`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, TRUE AS `_tidegate_is_later`
    FROM `my-project`.`shop`.`orders_shop_tmp` AS r
    WHERE batch_number > 7 AND op <> 'bad'
      AND NOT EXISTS (
        SELECT 1 FROM `my-project`.`shop`.`orders_shop_tmp` AS l
        WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
          AND l.topic = r.topic AND l.`partition` = r.`partition` AND l.`offset` = r.`offset`
      )
  ) AS t
  ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
    AND (t.`_tidegate_topic` <> s.`_tidegate_topic` OR t.`_tidegate_offset` > s.`_tidegate_offset`)
  WHERE t.`_tidegate_is_later` IS NULL
        )
      )
    )
  ) AS `_tidegate_record`
  GROUP BY `_tidegate_record`.`id`
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHEN MATCHED AND s.`_tidegate_ends_deleted` THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`name` = IF(s.`_tidegate_given_1` OR s.`_tidegate_is_reset`, s.`name`, t.`name`),
  t.`amount` = IF(s.`_tidegate_given_2` OR s.`_tidegate_is_reset`, s.`amount`, t.`amount`)
WHEN NOT MATCHED AND NOT s.`_tidegate_ends_deleted` THEN INSERT (`id`, `name`, `amount`)
VALUES (s.`id`, s.`name`, s.`amount`)
