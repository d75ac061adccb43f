-- The source table was emptied at offset 900: what its records behind that make is all that there is.
INSERT INTO `my-project`.`shop`.`orders` (`id`, `name`, `amount`)
SELECT `id`, `name`, `amount`
FROM (
  SELECT
    ANY_VALUE(`id`) AS `id`,
    ARRAY_AGG(IF(`_tidegate_counts` AND NOT COALESCE('name' IN UNNEST(`_tidegate_kept`), FALSE), STRUCT(`name` AS v), NULL) ORDER BY `_tidegate_counts` AND NOT COALESCE('name' IN UNNEST(`_tidegate_kept`), FALSE) DESC, `_tidegate_offset` DESC, `_tidegate_i` DESC LIMIT 1)[OFFSET(0)].v AS `name`,
    COALESCE(LOGICAL_OR(`_tidegate_counts` AND NOT COALESCE('name' IN UNNEST(`_tidegate_kept`), FALSE)), FALSE) AS `_tidegate_given_1`,
    ARRAY_AGG(IF(`_tidegate_counts`, STRUCT(`amount` AS v), NULL) ORDER BY `_tidegate_counts` DESC, `_tidegate_offset`, `_tidegate_i` LIMIT 1)[OFFSET(0)].v AS `amount`,
    FALSE AS `_tidegate_given_2`,
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
      SELECT
        key.`id` AS `id`,
        value.`name` AS `name`,
        value.`amount` AS `amount`,
        kept AS `_tidegate_kept`,
        op AS `_tidegate_op`, topic AS `_tidegate_topic`, `offset` AS `_tidegate_offset`, i AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_shop_tmp`
      WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad' AND `offset` > 900
        )
      )
    )
  ) AS `_tidegate_record`
  GROUP BY `_tidegate_record`.`id`
)
WHERE NOT `_tidegate_ends_deleted`
