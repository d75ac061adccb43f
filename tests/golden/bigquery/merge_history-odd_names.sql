-- All that is known of the touched keys, laid out in time: what remembers changes, and the rows that are there, which
-- stand in for changes that were forgotten (kind x: where a row ended, and nothing else says why). Of the
-- changes at one time the last counts. A change opens a row unless the one before it says the same; a row ends where the
-- next one opens, or at a delete; a delete without a time of its own ends nothing that came after it. A row of somebody else that has no begin is no version. Only rows that come out otherwise than they stand are written.
MERGE INTO `my-project`.`my shop`.`or\`ders` AS t
USING (
  SELECT `order id`, `select`, `_tidegate_last`.`row`.`a\`b` AS `a\`b`, `_tidegate_last`.`row`.`c.d` AS `c.d`, `_tidegate_last`.`row`.`größe` AS `größe`, `_tidegate_last`.`row`.`it's` AS `it's`, `_tidegate_last`.`row`.`名前` AS `名前`,
    `_tidegate_from`, `_tidegate_opens`,
    IF(`_tidegate_ends`, `_tidegate_from`, MIN(IF(`_tidegate_opens` OR `_tidegate_ends`, `_tidegate_from`, NULL)) OVER (
      PARTITION BY `order id`, `select`
      ORDER BY `_tidegate_from` ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    )) AS `_tidegate_to`
  FROM (
    SELECT *,
      `_tidegate_last` IS NOT NULL AND NOT COALESCE(
        `_tidegate_before` IS NOT NULL AND NOT `_tidegate_before_ends`
        AND `_tidegate_last`.`row`.`größe` IS NOT DISTINCT FROM `_tidegate_before`.`row`.`größe`
      , FALSE) AS `_tidegate_opens`
    FROM (
      SELECT *,
        LAG(`_tidegate_last`) OVER (PARTITION BY `order id`, `select` ORDER BY `_tidegate_from`) AS `_tidegate_before`,
        LAG(`_tidegate_ends`) OVER (PARTITION BY `order id`, `select` ORDER BY `_tidegate_from`) AS `_tidegate_before_ends`
      FROM (

    SELECT *,
      (`_tidegate_deleted` IS NOT NULL AND COALESCE(`_tidegate_deleted` > `_tidegate_last`.level, TRUE))
      OR (`_tidegate_cut` IS NOT NULL AND COALESCE(`_tidegate_cut` > LAST_VALUE(`_tidegate_last`.place IGNORE NULLS) OVER (
        PARTITION BY `order id`, `select`
        ORDER BY `_tidegate_from` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ), TRUE))
      OR (`_tidegate_deleted` IS NULL AND `_tidegate_cut` IS NULL AND COALESCE(`_tidegate_ended` > COALESCE(`_tidegate_last`.log_offset, -9), FALSE)) AS `_tidegate_ends`
    FROM (
      SELECT
        ANY_VALUE(`_tidegate_record`.`order id`) AS `order id`,
        ANY_VALUE(`_tidegate_record`.`select`) AS `select`,
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
          DENSE_RANK() OVER (PARTITION BY `order id`, `select`, `_tidegate_from` ORDER BY `_tidegate_sequence_1`, `_tidegate_sequence_2`, `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i`) AS `_tidegate_level`,
          DENSE_RANK() OVER (PARTITION BY `order id`, `select` ORDER BY `_tidegate_offset`, `_tidegate_topic`, `_tidegate_partition`, `_tidegate_i`) AS `_tidegate_place`
        FROM (
      SELECT
        t.`order id`,
        t.`select`,
        STRUCT(TRUE AS `_tidegate_there`, t.`a\`b` AS `a\`b`, t.`c.d` AS `c.d`, t.`größe` AS `größe`, t.`it's` AS `it's`, t.`名前` AS `名前`) AS `_tidegate_row`,
        t.`_tidegate_valid_from` AS `_tidegate_from`, t.`_tidegate_kind` AS `_tidegate_kind`,
        t.`_tidegate_sequence`.`a\`b` AS `_tidegate_sequence_1`,
        t.`_tidegate_sequence`.`it's` AS `_tidegate_sequence_2`,
        t.`_tidegate_offset` AS `_tidegate_offset`, t.`_tidegate_topic` AS `_tidegate_topic`, t.`_tidegate_partition` AS `_tidegate_partition`, t.`_tidegate_i` AS `_tidegate_i`
      FROM `my-project`.`my shop`.`or\`ders_changes` AS t
      JOIN (
      SELECT ANY_VALUE(`order id`) AS `order id`, ANY_VALUE(`select`) AS `select` FROM (
        SELECT key.`order id` AS `order id`, key.`select` AS `select` FROM `my-project`.`my shop`.`or\`ders_shop_tmp` WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
      ) AS `_tidegate_record`
      GROUP BY `_tidegate_record`.`order id`, `_tidegate_record`.`select`
      ) AS s ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
      UNION ALL
      SELECT
        t.`order id`,
        t.`select`,
        STRUCT(TRUE AS `_tidegate_there`, t.`a\`b` AS `a\`b`, t.`c.d` AS `c.d`, t.`größe` AS `größe`, t.`it's` AS `it's`, t.`名前` AS `名前`),
        IF(`_tidegate_end` = 'u', t.`gültig ab`, t.`bis\``), `_tidegate_end`,
        IF(`_tidegate_end` = 'u', t.`a\`b`, NULL),
        IF(`_tidegate_end` = 'u', t.`it's`, NULL),
        CASE WHEN `_tidegate_end` = 'u' THEN -2 WHEN t.`gültig ab` = t.`bis\`` THEN -1 ELSE -3 END, '', 0, 0
      FROM `my-project`.`my shop`.`or\`ders` AS t
      JOIN (
      SELECT ANY_VALUE(`order id`) AS `order id`, ANY_VALUE(`select`) AS `select` FROM (
        SELECT key.`order id` AS `order id`, key.`select` AS `select` FROM `my-project`.`my shop`.`or\`ders_shop_tmp` WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
      ) AS `_tidegate_record`
      GROUP BY `_tidegate_record`.`order id`, `_tidegate_record`.`select`
      ) AS s ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL))
      CROSS JOIN UNNEST(['u', 'x']) AS `_tidegate_end`
      WHERE t.`gültig ab` IS NOT NULL AND (`_tidegate_end` = 'u' OR t.`bis\`` IS NOT NULL)
        )
      ) AS `_tidegate_record`
      GROUP BY `_tidegate_record`.`order id`, `_tidegate_record`.`select`, `_tidegate_record`.`_tidegate_from`
    )
      )
      WHERE `_tidegate_last` IS NOT NULL OR `_tidegate_ends`
    )
  )
) AS s
ON (t.`order id` = s.`order id` OR (t.`order id` IS NULL AND s.`order id` IS NULL)) AND (t.`select` = s.`select` OR (t.`select` IS NULL AND s.`select` IS NULL)) AND t.`gültig ab` = s.`_tidegate_from`
WHEN MATCHED AND NOT s.`_tidegate_opens` THEN DELETE
WHEN MATCHED AND NOT (
  t.`bis\`` IS NOT DISTINCT FROM s.`_tidegate_to`
  AND t.`a\`b` IS NOT DISTINCT FROM s.`a\`b`
  AND t.`c.d` IS NOT DISTINCT FROM s.`c.d`
  AND t.`größe` IS NOT DISTINCT FROM s.`größe`
  AND t.`it's` IS NOT DISTINCT FROM s.`it's`
  AND t.`名前` IS NOT DISTINCT FROM s.`名前`
) THEN UPDATE SET
  t.`a\`b` = s.`a\`b`,
  t.`c.d` = s.`c.d`,
  t.`größe` = s.`größe`,
  t.`it's` = s.`it's`,
  t.`名前` = s.`名前`,
  t.`bis\`` = s.`_tidegate_to`,
  t.`is_current` = s.`_tidegate_to` IS NULL
WHEN NOT MATCHED AND s.`_tidegate_opens` THEN INSERT (`order id`, `select`, `a\`b`, `c.d`, `größe`, `it's`, `名前`, `gültig ab`, `bis\``, `is_current`)
VALUES (s.`order id`, s.`select`, s.`a\`b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`, s.`_tidegate_from`, s.`_tidegate_to`, s.`_tidegate_to` IS NULL)
