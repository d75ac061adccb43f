-- All that is known of the touched keys, laid out in time: what remembers changes, and the rows that are there, which
-- stand in for changes that were forgotten (kind x: where a row ended, and nothing else says why). Of the
-- changes at one time the last counts. A change opens a row unless the one before it says the same; a row ends where the
-- next one opens, or at a delete; a delete without a time of its own ends nothing that came after it. A row of somebody else that has no begin is no version. Only rows that come out otherwise than they stand are written.
MERGE INTO `my-project`.`shop`.`orders` AS t
USING (
  SELECT `id`,
    `_tidegate_from`, `_tidegate_opens`,
    IF(`_tidegate_ends`, `_tidegate_from`, MIN(IF(`_tidegate_opens` OR `_tidegate_ends`, `_tidegate_from`, NULL)) OVER (
      PARTITION BY `id`
      ORDER BY `_tidegate_from` ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    )) AS `_tidegate_to`
  FROM (
    SELECT *,
      `_tidegate_last` IS NOT NULL AND NOT COALESCE(
        `_tidegate_before` IS NOT NULL AND NOT `_tidegate_before_ends`
      , FALSE) AS `_tidegate_opens`
    FROM (
      SELECT *,
        LAG(`_tidegate_last`) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`) AS `_tidegate_before`,
        LAG(`_tidegate_ends`) OVER (PARTITION BY `id` ORDER BY `_tidegate_from`) AS `_tidegate_before_ends`
      FROM (

    SELECT *,
      (`_tidegate_deleted` IS NOT NULL AND COALESCE(`_tidegate_deleted` > `_tidegate_last`.level, TRUE))
      OR (`_tidegate_cut` IS NOT NULL AND COALESCE(`_tidegate_cut` > LAST_VALUE(`_tidegate_last`.place IGNORE NULLS) OVER (
        PARTITION BY `id`
        ORDER BY `_tidegate_from` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ), TRUE))
      OR (`_tidegate_deleted` IS NULL AND `_tidegate_cut` IS NULL AND COALESCE(`_tidegate_ended` > COALESCE(`_tidegate_last`.log_offset, -9), FALSE)) AS `_tidegate_ends`
    FROM (
      SELECT
        ANY_VALUE(`_tidegate_record`.`id`) AS `id`,
        `_tidegate_record`.`_tidegate_from` AS `_tidegate_from`,
        ARRAY_AGG(
          IF(`_tidegate_kind` = 'u', STRUCT(`_tidegate_row` AS `row`, `_tidegate_level` AS level, `_tidegate_place` AS place, `_tidegate_offset` AS log_offset), NULL)
          ORDER BY `_tidegate_kind` = 'u' DESC, `_tidegate_level` DESC LIMIT 1
        )[OFFSET(0)] AS `_tidegate_last`,
        MAX(IF(`_tidegate_kind` = 'd', `_tidegate_level`, NULL)) AS `_tidegate_deleted`,
        MAX(IF(`_tidegate_kind` = 't', `_tidegate_place`, NULL)) AS `_tidegate_cut`,
        MAX(IF(`_tidegate_kind` = 'x', `_tidegate_offset`, NULL)) AS `_tidegate_ended`
      FROM (
        SELECT *,
          DENSE_RANK() OVER (PARTITION BY `id`, `_tidegate_from` ORDER BY `_tidegate_sequence_1`, `_tidegate_sequence_2`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i`) AS `_tidegate_level`,
          DENSE_RANK() OVER (PARTITION BY `id` ORDER BY `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i`) AS `_tidegate_place`
        FROM (
      SELECT
        t.`id`,
        STRUCT(TRUE AS `_tidegate_there`) AS `_tidegate_row`,
        t.`_tidegate_valid_from` AS `_tidegate_from`, t.`_tidegate_kind` AS `_tidegate_kind`,
        t.`_tidegate_sequence`.`at` AS `_tidegate_sequence_1`,
        t.`_tidegate_sequence`.`lsn` AS `_tidegate_sequence_2`,
        t.`_tidegate_offset` AS `_tidegate_offset`, t.`_tidegate_topic` AS `_tidegate_topic`, t.`_tidegate_partition` AS `_tidegate_partition`, t.`_tidegate_i` AS `_tidegate_i`
      FROM `my-project`.`shop`.`orders_changes` AS t
      JOIN (
      SELECT ANY_VALUE(`id`) AS `id` FROM (
        SELECT key.`id` AS `id` FROM `my-project`.`shop`.`orders_shop_tmp` WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
      ) AS `_tidegate_record`
      GROUP BY `_tidegate_record`.`id`
      ) AS s ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
      UNION ALL
      SELECT
        t.`id`,
        STRUCT(TRUE AS `_tidegate_there`),
        IF(`_tidegate_end` = 'u', t.`valid_from`, t.`valid_to`), `_tidegate_end`,
        IF(`_tidegate_end` = 'u', t.`at`, NULL),
        IF(`_tidegate_end` = 'u', t.`lsn`, NULL),
        CASE WHEN `_tidegate_end` = 'u' THEN -2 WHEN t.`valid_from` = t.`valid_to` THEN -1 ELSE -3 END, '', 0, 0
      FROM `my-project`.`shop`.`orders` AS t
      JOIN (
      SELECT ANY_VALUE(`id`) AS `id` FROM (
        SELECT key.`id` AS `id` FROM `my-project`.`shop`.`orders_shop_tmp` WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
      ) AS `_tidegate_record`
      GROUP BY `_tidegate_record`.`id`
      ) AS s ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL))
      CROSS JOIN UNNEST(['u', 'x']) AS `_tidegate_end`
      WHERE t.`valid_from` IS NOT NULL AND (`_tidegate_end` = 'u' OR t.`valid_to` IS NOT NULL)
        )
      ) AS `_tidegate_record`
      GROUP BY `_tidegate_record`.`id`, `_tidegate_record`.`_tidegate_from`
    )
      )
      WHERE `_tidegate_last` IS NOT NULL OR `_tidegate_ends`
    )
  )
) AS s
ON (t.`id` = s.`id` OR (t.`id` IS NULL AND s.`id` IS NULL)) AND t.`valid_from` = s.`_tidegate_from`
WHEN MATCHED AND NOT s.`_tidegate_opens` THEN DELETE
WHEN MATCHED AND NOT (
  t.`valid_to` IS NOT DISTINCT FROM s.`_tidegate_to`
) THEN UPDATE SET
  t.`valid_to` = s.`_tidegate_to`,
  t.`is_current` = s.`_tidegate_to` IS NULL
WHEN NOT MATCHED AND s.`_tidegate_opens` THEN INSERT (`id`, `valid_from`, `valid_to`, `is_current`)
VALUES (s.`id`, s.`_tidegate_from`, s.`_tidegate_to`, s.`_tidegate_to` IS NULL)
