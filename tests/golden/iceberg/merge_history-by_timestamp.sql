-- All that is known of the touched keys, laid out in time: what remembers changes, and the rows that are there, which
-- stand in for changes that were forgotten (kind x: where a row ended, and nothing else says why). Of the
-- changes at one time the last counts. A change opens a row unless the one before it says the same; a row ends where the
-- next one opens, or at a delete; a delete without a time of its own ends nothing that came after it. A row of somebody else that has no begin is no version. Only rows that come out otherwise than they stand are written.
MERGE INTO `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT `id`, `_tidegate_row`.`name`, `_tidegate_row`.`tags`, `_tidegate_row`.`at`, `_tidegate_row`.`lsn`,
    `_tidegate_from`, `_tidegate_opens`,
    CASE WHEN `_tidegate_ends` THEN `_tidegate_from` ELSE min(CASE WHEN `_tidegate_opens` OR `_tidegate_ends` THEN `_tidegate_from` END) OVER (
      PARTITION BY `id`
      ORDER BY `_tidegate_from` ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) END AS `_tidegate_to`
  FROM (
    SELECT *,
      `_tidegate_row` IS NOT NULL AND NOT coalesce(
        lag(`_tidegate_row`) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`) IS NOT NULL
        AND NOT lag(`_tidegate_ends`) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`)
        AND _tidegate_row.`name` <=> lag(_tidegate_row.`name`) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`)
        AND sort_array(transform(map_entries(_tidegate_row.`tags`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> lag(sort_array(transform(map_entries(_tidegate_row.`tags`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`)
      , false) AS `_tidegate_opens`
    FROM (
    SELECT *,
      CASE WHEN `_tidegate_deleted` IS NULL THEN false ELSE coalesce(`_tidegate_deleted` > `_tidegate_upserted`, true) END
      OR CASE WHEN `_tidegate_cut` IS NULL THEN false ELSE coalesce(`_tidegate_cut` > last_value(`_tidegate_upserted`.at, true) OVER (
        PARTITION BY `id`
        ORDER BY `_tidegate_from` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ), true) END
      OR `_tidegate_deleted` IS NULL AND `_tidegate_cut` IS NULL AND coalesce(`_tidegate_ended` > coalesce(`_tidegate_upserted`.at.offset, -9), false) AS `_tidegate_ends`
    FROM (
      SELECT
        any_value(`id`) AS `id`,
        `_tidegate_from`,
        max_by(`_tidegate_row`, CASE WHEN `_tidegate_kind` = 'u' THEN `_tidegate_order` END) AS `_tidegate_row`,
        max(CASE WHEN `_tidegate_kind` = 'u' THEN `_tidegate_order` END) AS `_tidegate_upserted`,
        max(CASE WHEN `_tidegate_kind` = 'd' THEN `_tidegate_order` END) AS `_tidegate_deleted`,
        max(CASE WHEN `_tidegate_kind` = 't' THEN `_tidegate_order`.at END) AS `_tidegate_cut`,
        max(CASE WHEN `_tidegate_kind` = 'x' THEN `_tidegate_order`.at.offset END) AS `_tidegate_ended`
      FROM (
      SELECT
        m.`id` AS `id`,
        struct(true AS `_tidegate_there`, m.`name` AS `name`, m.`tags` AS `tags`, m.`at` AS `at`, m.`lsn` AS `lsn`) AS `_tidegate_row`,
        m.`_tidegate_valid_from` AS `_tidegate_from`, m.`_tidegate_kind` AS `_tidegate_kind`,
        struct(
          true AS sequence,
          struct(m.`_tidegate_offset` AS offset, m.`_tidegate_topic` AS topic, m.`_tidegate_partition` AS partition, m.`_tidegate_i` AS i) AS at
        ) AS `_tidegate_order`
      FROM `lake`.`shop`.`orders_changes`.`branch_tidegate_shop_7_0af3` m LEFT SEMI JOIN (SELECT key.`id` AS `id` FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad') s ON m.`id` <=> s.`id`
      UNION ALL
      SELECT
        t.`id`,
        struct(true AS `_tidegate_there`, t.`name`, t.`tags`, t.`at`, t.`lsn`),
        CASE WHEN w.kind = 'u' THEN t.`valid_from` ELSE t.`valid_to` END,
        w.kind,
        struct(
          true AS sequence,
          struct(CASE WHEN w.kind = 'u' THEN -2L WHEN t.`valid_from` <=> t.`valid_to` THEN -1L ELSE -3L END AS offset, '' AS topic, 0 AS partition, 0L AS i) AS at
        )
      FROM `lake`.`shop`.`orders`.`branch_tidegate_shop_7_0af3` t LEFT SEMI JOIN (SELECT key.`id` AS `id` FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 8154213786245100123 WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad') s ON t.`id` <=> s.`id`
      CROSS JOIN (SELECT explode(array('u', 'x')) AS kind) w
      WHERE t.`valid_from` IS NOT NULL AND (w.kind = 'u' OR t.`valid_to` IS NOT NULL)
      )
      GROUP BY `id`, `_tidegate_from`
    )
    )
    WHERE `_tidegate_row` IS NOT NULL OR `_tidegate_ends`
  )
) s
ON t.`id` <=> s.`id` AND t.`valid_from` = s.`_tidegate_from`
WHEN MATCHED AND NOT s.`_tidegate_opens` THEN DELETE
WHEN MATCHED AND NOT (
  t.`valid_to` <=> s.`_tidegate_to`
  AND t.`name` <=> s.`name`
  AND sort_array(transform(map_entries(t.`tags`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(s.`tags`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))
  AND t.`at` <=> s.`at`
  AND t.`lsn` <=> s.`lsn`
) THEN UPDATE SET
  t.`name` = s.`name`,
  t.`tags` = s.`tags`,
  t.`at` = s.`at`,
  t.`lsn` = s.`lsn`,
  t.`valid_to` = s.`_tidegate_to`,
  t.`is_current` = s.`_tidegate_to` IS NULL
WHEN NOT MATCHED AND s.`_tidegate_opens` THEN INSERT (`id`, `name`, `tags`, `at`, `lsn`, `valid_from`, `valid_to`, `is_current`)
VALUES (s.`id`, s.`name`, s.`tags`, s.`at`, s.`lsn`, s.`_tidegate_from`, s.`_tidegate_to`, s.`_tidegate_to` IS NULL)
