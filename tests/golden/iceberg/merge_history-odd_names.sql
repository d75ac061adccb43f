-- All that is known of the touched keys, laid out in time: what remembers changes, and the rows that are there, which
-- stand in for changes that were forgotten (kind x: where a row ended, and nothing else says why). Of the
-- changes at one time the last counts. A change opens a row unless the one before it says the same; a row ends where the
-- next one opens, or at a delete; a delete without a time of its own ends nothing that came after it. A row of somebody else that has no begin is no version. Only rows that come out otherwise than they stand are written.
MERGE INTO `lake`.`my shop`.`or``ders`.`branch_tidegate_shop_7_0af3` t
USING (
  SELECT `order id`, `select`, `_tidegate_row`.`a``b`, `_tidegate_row`.`c.d`, `_tidegate_row`.`größe`, `_tidegate_row`.`it's`, `_tidegate_row`.`名前`,
    `_tidegate_from`, `_tidegate_opens`,
    CASE WHEN `_tidegate_ends` THEN `_tidegate_from` ELSE min(CASE WHEN `_tidegate_opens` OR `_tidegate_ends` THEN `_tidegate_from` END) OVER (
      PARTITION BY `order id`, `select`
      ORDER BY `_tidegate_from` ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
    ) END AS `_tidegate_to`
  FROM (
    SELECT *,
      `_tidegate_row` IS NOT NULL AND NOT coalesce(
        lag(`_tidegate_row`) OVER (PARTITION BY `order id`, `select` ORDER BY `_tidegate_from`) IS NOT NULL
        AND NOT lag(`_tidegate_ends`) OVER (PARTITION BY `order id`, `select` ORDER BY `_tidegate_from`)
        AND _tidegate_row.`größe` <=> lag(_tidegate_row.`größe`) OVER (PARTITION BY `order id`, `select` ORDER BY `_tidegate_from`)
      , false) AS `_tidegate_opens`
    FROM (
    SELECT *,
      CASE WHEN `_tidegate_deleted` IS NULL THEN false ELSE coalesce(`_tidegate_deleted` > `_tidegate_upserted`, true) END
      OR CASE WHEN `_tidegate_cut` IS NULL THEN false ELSE coalesce(`_tidegate_cut` > last_value(`_tidegate_upserted`.at, true) OVER (
        PARTITION BY `order id`, `select`
        ORDER BY `_tidegate_from` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ), true) END
      OR `_tidegate_deleted` IS NULL AND `_tidegate_cut` IS NULL AND coalesce(`_tidegate_ended` > coalesce(`_tidegate_upserted`.at.offset, -9), false) AS `_tidegate_ends`
    FROM (
      SELECT
        any_value(`order id`) AS `order id`,
        any_value(`select`) AS `select`,
        `_tidegate_from`,
        max_by(`_tidegate_row`, CASE WHEN `_tidegate_kind` = 'u' THEN `_tidegate_order` END) AS `_tidegate_row`,
        max(CASE WHEN `_tidegate_kind` = 'u' THEN `_tidegate_order` END) AS `_tidegate_upserted`,
        max(CASE WHEN `_tidegate_kind` = 'd' THEN `_tidegate_order` END) AS `_tidegate_deleted`,
        max(CASE WHEN `_tidegate_kind` = 't' THEN `_tidegate_order`.at END) AS `_tidegate_cut`,
        max(CASE WHEN `_tidegate_kind` = 'x' THEN `_tidegate_order`.at.offset END) AS `_tidegate_ended`
      FROM (
      SELECT
        m.`order id` AS `order id`,
        m.`select` AS `select`,
        struct(true AS `_tidegate_there`, m.`a``b` AS `a``b`, m.`c.d` AS `c.d`, m.`größe` AS `größe`, m.`it's` AS `it's`, m.`名前` AS `名前`) AS `_tidegate_row`,
        m.`_tidegate_valid_from` AS `_tidegate_from`, m.`_tidegate_kind` AS `_tidegate_kind`,
        struct(
          m.`_tidegate_sequence` AS sequence,
          struct(m.`_tidegate_offset` AS offset, m.`_tidegate_topic` AS topic, m.`_tidegate_partition` AS partition, m.`_tidegate_i` AS i) AS at
        ) AS `_tidegate_order`
      FROM `lake`.`my shop`.`or``ders_changes`.`branch_tidegate_shop_7_0af3` m LEFT SEMI JOIN (SELECT key.`order id` AS `order id`, key.`select` AS `select` FROM `lake`.`my shop`.`or``ders_shop_tmp` VERSION AS OF 8154213786245100123 WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad') s ON m.`order id` <=> s.`order id` AND m.`select` <=> s.`select`
      UNION ALL
      SELECT
        t.`order id`,
        t.`select`,
        struct(true AS `_tidegate_there`, t.`a``b`, t.`c.d`, t.`größe`, t.`it's`, t.`名前`),
        CASE WHEN w.kind = 'u' THEN t.`gültig ab` ELSE t.`bis``` END,
        w.kind,
        struct(
          CASE WHEN w.kind = 'u' THEN named_struct('a`b', t.`a``b`, 'it\'s', t.`it's`) END AS sequence,
          struct(CASE WHEN w.kind = 'u' THEN -2L WHEN t.`gültig ab` <=> t.`bis``` THEN -1L ELSE -3L END AS offset, '' AS topic, 0 AS partition, 0L AS i) AS at
        )
      FROM `lake`.`my shop`.`or``ders`.`branch_tidegate_shop_7_0af3` t LEFT SEMI JOIN (SELECT key.`order id` AS `order id`, key.`select` AS `select` FROM `lake`.`my shop`.`or``ders_shop_tmp` VERSION AS OF 8154213786245100123 WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad') s ON t.`order id` <=> s.`order id` AND t.`select` <=> s.`select`
      CROSS JOIN (SELECT explode(array('u', 'x')) AS kind) w
      WHERE t.`gültig ab` IS NOT NULL AND (w.kind = 'u' OR t.`bis``` IS NOT NULL)
      )
      GROUP BY `order id`, `select`, `_tidegate_from`
    )
    )
    WHERE `_tidegate_row` IS NOT NULL OR `_tidegate_ends`
  )
) s
ON t.`order id` <=> s.`order id` AND t.`select` <=> s.`select` AND t.`gültig ab` = s.`_tidegate_from`
WHEN MATCHED AND NOT s.`_tidegate_opens` THEN DELETE
WHEN MATCHED AND NOT (
  t.`bis``` <=> s.`_tidegate_to`
  AND t.`a``b` <=> s.`a``b`
  AND t.`c.d` <=> s.`c.d`
  AND t.`größe` <=> s.`größe`
  AND t.`it's` <=> s.`it's`
  AND t.`名前` <=> s.`名前`
) THEN UPDATE SET
  t.`a``b` = s.`a``b`,
  t.`c.d` = s.`c.d`,
  t.`größe` = s.`größe`,
  t.`it's` = s.`it's`,
  t.`名前` = s.`名前`,
  t.`bis``` = s.`_tidegate_to`,
  t.`is_current` = s.`_tidegate_to` IS NULL
WHEN NOT MATCHED AND s.`_tidegate_opens` THEN INSERT (`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`, `gültig ab`, `bis```, `is_current`)
VALUES (s.`order id`, s.`select`, s.`a``b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`, s.`_tidegate_from`, s.`_tidegate_to`, s.`_tidegate_to` IS NULL)
