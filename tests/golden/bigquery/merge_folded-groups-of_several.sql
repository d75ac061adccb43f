-- A key's records are folded column by column: each column has the last value that a record gave it, else what the row
-- has. A delete ends a life of the row, and what follows it starts from nothing; a soft one leaves the row its values.
-- Columns of a sequence group have the values of the record with the group's highest sequence, unless the row's is higher.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT
    ANY_VALUE(`id`) AS `id`,
    IF(
      LOGICAL_OR(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE)),
      ARRAY_AGG(IF(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE), STRUCT(`a` AS v), NULL) ORDER BY COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE) DESC, `va` DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v,
      ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`a` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v
    ) AS `a`,
    LOGICAL_OR(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE)) AS `_tidegate_given_1`,
    IF(
      LOGICAL_OR(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE)),
      ARRAY_AGG(IF(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE), STRUCT(`va` AS v), NULL) ORDER BY COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE) DESC, `va` DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v,
      ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`va` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v
    ) AS `va`,
    LOGICAL_OR(COALESCE(`_tidegate_counts` AND `va` IS NOT NULL, FALSE)) AS `_tidegate_given_2`,
    IF(
      LOGICAL_OR(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE)),
      ARRAY_AGG(IF(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE), STRUCT(`b` AS v), NULL) ORDER BY COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE) DESC, `vb` DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v,
      ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`b` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v
    ) AS `b`,
    LOGICAL_OR(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE)) AS `_tidegate_given_3`,
    IF(
      LOGICAL_OR(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE)),
      ARRAY_AGG(IF(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE), STRUCT(`vb` AS v), NULL) ORDER BY COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE) DESC, `vb` DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v,
      ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`vb` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v
    ) AS `vb`,
    LOGICAL_OR(COALESCE(`_tidegate_counts` AND `vb` IS NOT NULL, FALSE)) AS `_tidegate_given_4`,
    ARRAY_AGG(IF(`_tidegate_counts` AND `name` IS NOT NULL, STRUCT(`name` AS v), NULL) ORDER BY `_tidegate_counts` AND `name` IS NOT NULL DESC, `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `name`,
    COALESCE(LOGICAL_OR(`_tidegate_counts` AND `name` IS NOT NULL), FALSE) AS `_tidegate_given_5`,
    MAX(`_tidegate_last_life`) IS NOT NULL AS `_tidegate_is_row`,
    COALESCE(MAX(`_tidegate_last_life`) > 0, FALSE) AS `_tidegate_is_reset`,
    ARRAY_AGG(`_tidegate_op` ORDER BY `_tidegate_batch` DESC, `_tidegate_offset` DESC, `_tidegate_topic` DESC, `_tidegate_partition` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)] = 'd' AS `_tidegate_ends_deleted`
  FROM (
    SELECT *, `_tidegate_op` <> 'd' AND `_tidegate_life` = `_tidegate_last_life` AS `_tidegate_counts` FROM (
      SELECT *, MAX(IF(`_tidegate_op` <> 'd', `_tidegate_life`, NULL)) OVER (PARTITION BY `id`) AS `_tidegate_last_life`
      FROM (
        SELECT *,
          COUNTIF(`_tidegate_op` = 'd') OVER (
            PARTITION BY `id`
            ORDER BY `_tidegate_batch`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_life`
        FROM (
      SELECT
        key.`id` AS `id`,
        value.`a` AS `a`,
        value.`va` AS `va`,
        value.`b` AS `b`,
        value.`vb` AS `vb`,
        value.`name` AS `name`,
        `partition` AS `_tidegate_partition`,
        batch_number AS `_tidegate_batch`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number IN (6, 7) AND attempt IN ('0ae2', 'it\'s') AND op <> 'bad'
        )
      )
    )
  ) AS `_tidegate_record`
  GROUP BY `_tidegate_record`.`id`
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
WHEN MATCHED AND s.`_tidegate_ends_deleted` THEN DELETE
WHEN MATCHED THEN UPDATE SET
  t.`a` = IF(s.`_tidegate_given_1` AND COALESCE(s.`va` >= t.`va`, TRUE) OR s.`_tidegate_is_reset`, s.`a`, t.`a`),
  t.`va` = IF(s.`_tidegate_given_2` AND COALESCE(s.`va` >= t.`va`, TRUE) OR s.`_tidegate_is_reset`, s.`va`, t.`va`),
  t.`b` = IF(s.`_tidegate_given_3` AND COALESCE(s.`vb` >= t.`vb`, TRUE) OR s.`_tidegate_is_reset`, s.`b`, t.`b`),
  t.`vb` = IF(s.`_tidegate_given_4` AND COALESCE(s.`vb` >= t.`vb`, TRUE) OR s.`_tidegate_is_reset`, s.`vb`, t.`vb`),
  t.`name` = IF(s.`_tidegate_given_5` OR s.`_tidegate_is_reset`, s.`name`, t.`name`)
WHEN NOT MATCHED AND NOT s.`_tidegate_ends_deleted` THEN INSERT (`id`, `a`, `va`, `b`, `vb`, `name`)
VALUES (s.`id`, s.`a`, s.`va`, s.`b`, s.`vb`, s.`name`)
