-- The first keys that differ: of a row on one side alone the whole row, else the columns that differ.
WITH `_tidegate_sides` AS (
SELECT *, pmod(xxhash64(`order id`, `order id` IS NULL, `select`, `select` IS NULL), 1024) AS `_tidegate_bucket` FROM (
    SELECT `order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`, `gültig ab`, `bis```, `Is current`,
      1L AS `_tidegate_side`
    FROM `lake`.`my shop`.`or``ders` VERSION AS OF 42
    UNION ALL
SELECT s.`order id`, s.`select`, s.`a``b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`, s.`gültig ab`, s.`bis```, s.`Is current`,
      -1L AS `_tidegate_side`
    FROM (
  SELECT *, `_tidegate_from` AS `gültig ab`, `_tidegate_to` AS `bis```, `_tidegate_to` IS NULL AS `Is current` FROM (
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
      FROM (
        SELECT *, `_tidegate_from` AS `_tidegate_valid_from`, `_tidegate_at`.partition AS `_tidegate_partition` FROM (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `order id`, `select`, `_tidegate_from`, `_tidegate_kind`
      ORDER BY `_tidegate_order` DESC
    ) AS `_tidegate_rank`
    FROM (
      SELECT s.*,
        CASE WHEN s.`_tidegate_kind` = 't' THEN struct(CAST(NULL AS STRUCT<`at`: TIMESTAMP, `lsn`: BIGINT>) AS sequence, s.`_tidegate_at` AS at) ELSE struct(s.`_tidegate_sequence` AS sequence, s.`_tidegate_at` AS at) END AS `_tidegate_order`,
        CASE WHEN s.`_tidegate_kind` = 't' THEN s.`_tidegate_reached` ELSE s.`_tidegate_axis` END AS `_tidegate_from`
      FROM (
        SELECT *,
          max(`_tidegate_axis`) OVER (
            PARTITION BY `order id`, `select`
            ORDER BY `_tidegate_at` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_reached`
        FROM (
          SELECT *,
            coalesce(`_tidegate_sequence`.`a``b`, CASE WHEN `_tidegate_op` = 'd' THEN CAST(`_tidegate_timestamp` AS TIMESTAMP) END) AS `_tidegate_axis`,
            CASE WHEN `_tidegate_op` <> 'd' THEN 'u' WHEN `_tidegate_sequence`.`a``b` IS NULL THEN 't' ELSE 'd' END AS `_tidegate_kind`
          FROM (
    SELECT
      key.`order id` AS `order id`,
      key.`select` AS `select`,
      value.`a``b` AS `a``b`,
      value.`c.d` AS `c.d`,
      value.`größe` AS `größe`,
      value.`it's` AS `it's`,
      value.`名前` AS `名前`,
      sequence AS `_tidegate_sequence`, timestamp AS `_tidegate_timestamp`,
      struct(offset, topic, partition, i) AS `_tidegate_at`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`my shop`.`or``ders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
          )
        )
      ) s
    )
  )
  WHERE `_tidegate_rank` = 1 AND `_tidegate_from` IS NOT NULL
        )
      ) m
      )
      GROUP BY `order id`, `select`, `_tidegate_from`
    )
    )
    WHERE `_tidegate_row` IS NOT NULL OR `_tidegate_ends`
  )
  )

    ) s
    WHERE s.`_tidegate_opens`
  )
  WHERE pmod(xxhash64(`order id`, `order id` IS NULL, `select`, `select` IS NULL), 1000000) < 10000
),
`_tidegate_pairs` AS (
  SELECT `order id` AS `_tidegate_key_1`, `select` AS `_tidegate_key_2`, `gültig ab` AS `_tidegate_key_3`,
    count_if(`_tidegate_side` = 1) AS `_tidegate_rows`, count_if(`_tidegate_side` = -1) AS `_tidegate_expected`,
    first(struct(`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`, `gültig ab`, `bis```, `Is current`)) FILTER (WHERE `_tidegate_side` = 1) AS `_tidegate_table`,
    first(struct(`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`, `gültig ab`, `bis```, `Is current`)) FILTER (WHERE `_tidegate_side` = -1) AS `_tidegate_log`
  FROM `_tidegate_sides`
  WHERE `_tidegate_bucket` IN (3, 900)
  GROUP BY `order id`, `select`, `gültig ab`
),
`_tidegate_facts` AS (
  SELECT `order id` AS `_tidegate_key_1`, `select` AS `_tidegate_key_2`,
    bool_or(`_tidegate_number` = 1) AS `_tidegate_seen`,
    count(DISTINCT CASE WHEN `_tidegate_number` = 1 THEN struct(`_tidegate_topic`, `_tidegate_partition`) END) > 1 AS `_tidegate_spread`,
    bool_or(`_tidegate_number` > 1) OR bool_or(`_tidegate_is_letter`) AS `_tidegate_doubt`
  FROM (
    SELECT r.*, l.offset IS NOT NULL AS `_tidegate_is_letter`
    FROM (
      SELECT key.`order id` AS `order id`, key.`select` AS `select`,
        batch_number AS `_tidegate_number`, op AS `_tidegate_op`, topic AS `_tidegate_topic`, partition AS `_tidegate_partition`, offset AS `_tidegate_offset`
      FROM `lake`.`my shop`.`or``ders_shop_tmp` VERSION AS OF 43
      WHERE batch_number = 1 AND attempt = '0af3' AND op <> 'bad'
    ) r
    LEFT JOIN (
      SELECT CAST(NULL AS STRING) AS topic, CAST(NULL AS INT) AS partition, CAST(NULL AS BIGINT) AS offset
    ) l ON l.topic = r.`_tidegate_topic` AND l.partition = r.`_tidegate_partition` AND l.offset = r.`_tidegate_offset`
  )
  GROUP BY `order id`, `select`
),
`_tidegate_untold` AS (
  SELECT DISTINCT s.`order id` AS `_tidegate_key_1`, s.`select` AS `_tidegate_key_2`, `_tidegate_is_late`
  FROM (
    SELECT *, `_tidegate_axis` < `_tidegate_reached` OR `_tidegate_kind` <> 't' AND `_tidegate_sequence` < max(CASE WHEN `_tidegate_kind` <> 't' THEN `_tidegate_sequence` END) OVER (
        PARTITION BY `order id`, `select` ORDER BY `_tidegate_at` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
      ) AS `_tidegate_is_late`
    FROM (
        SELECT *,
          max(`_tidegate_axis`) OVER (
            PARTITION BY `order id`, `select`
            ORDER BY `_tidegate_at` ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
          ) AS `_tidegate_reached`
        FROM (
          SELECT *,
            coalesce(`_tidegate_sequence`.`a``b`, CASE WHEN `_tidegate_op` = 'd' THEN CAST(`_tidegate_timestamp` AS TIMESTAMP) END) AS `_tidegate_axis`,
            CASE WHEN `_tidegate_op` <> 'd' THEN 'u' WHEN `_tidegate_sequence`.`a``b` IS NULL THEN 't' ELSE 'd' END AS `_tidegate_kind`
          FROM (
    SELECT
      key.`order id` AS `order id`,
      key.`select` AS `select`,
      sequence AS `_tidegate_sequence`, timestamp AS `_tidegate_timestamp`,
      struct(offset, topic, partition, i) AS `_tidegate_at`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`my shop`.`or``ders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
          )
        )
    )
  ) s
  WHERE `_tidegate_is_late`
),
`_tidegate_compared` AS (
  SELECT p.*,
    CASE
      WHEN p.`_tidegate_rows` = 1 AND p.`_tidegate_expected` = 1
        AND p.`_tidegate_table`.`id` <=> p.`_tidegate_log`.`id`
        AND p.`_tidegate_table`.`name` <=> p.`_tidegate_log`.`name`
        AND p.`_tidegate_table`.`tags` <=> p.`_tidegate_log`.`tags`
        AND p.`_tidegate_table`.`at` <=> p.`_tidegate_log`.`at`
        AND p.`_tidegate_table`.`lsn` <=> p.`_tidegate_log`.`lsn`
        AND p.`_tidegate_table`.`valid_from` <=> p.`_tidegate_log`.`valid_from`
        AND p.`_tidegate_table`.`valid_to` <=> p.`_tidegate_log`.`valid_to`
        AND p.`_tidegate_table`.`is_current` <=> p.`_tidegate_log`.`is_current` THEN 'equal'
      WHEN coalesce(f.`_tidegate_doubt` OR f.`_tidegate_spread`, false) OR u.`_tidegate_is_late` IS NOT NULL THEN 'unknowable'
      WHEN p.`_tidegate_rows` = 0 THEN 'missing'
      WHEN p.`_tidegate_expected` = 0 OR p.`_tidegate_rows` > 1 THEN 'surplus'
      ELSE 'different'
    END AS `_tidegate_kind`
  FROM `_tidegate_pairs` p LEFT JOIN `_tidegate_facts` f
  ON p.`_tidegate_key_1` <=> f.`_tidegate_key_1` AND p.`_tidegate_key_2` <=> f.`_tidegate_key_2`
  LEFT JOIN `_tidegate_untold` u
  ON p.`_tidegate_key_1` <=> u.`_tidegate_key_1` AND p.`_tidegate_key_2` <=> u.`_tidegate_key_2`
)
SELECT to_json(collect_list(difference)) FROM (
  SELECT named_struct(
    'kind', `_tidegate_kind`,
    'key', to_json(struct(coalesce(`_tidegate_table`, `_tidegate_log`).`order id`, coalesce(`_tidegate_table`, `_tidegate_log`).`select`, coalesce(`_tidegate_table`, `_tidegate_log`).`gültig ab`), map('timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX', 'timestampNTZFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSS')),
    'rows', `_tidegate_rows`,
    'table', left(to_json(`_tidegate_table`), 200), 'log', left(to_json(`_tidegate_log`), 200),
    'columns', filter(array(
      CASE WHEN NOT `_tidegate_table`.`id` <=> `_tidegate_log`.`id` THEN named_struct(
        'column', 'id', 'table', left(CAST(`_tidegate_table`.`id` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`id` AS STRING), 200)
      ) END,
      CASE WHEN NOT `_tidegate_table`.`name` <=> `_tidegate_log`.`name` THEN named_struct(
        'column', 'name', 'table', left(CAST(`_tidegate_table`.`name` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`name` AS STRING), 200)
      ) END,
      CASE WHEN NOT `_tidegate_table`.`tags` <=> `_tidegate_log`.`tags` THEN named_struct(
        'column', 'tags', 'table', left(CAST(`_tidegate_table`.`tags` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`tags` AS STRING), 200)
      ) END,
      CASE WHEN NOT `_tidegate_table`.`at` <=> `_tidegate_log`.`at` THEN named_struct(
        'column', 'at', 'table', left(CAST(`_tidegate_table`.`at` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`at` AS STRING), 200)
      ) END,
      CASE WHEN NOT `_tidegate_table`.`lsn` <=> `_tidegate_log`.`lsn` THEN named_struct(
        'column', 'lsn', 'table', left(CAST(`_tidegate_table`.`lsn` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`lsn` AS STRING), 200)
      ) END,
      CASE WHEN NOT `_tidegate_table`.`valid_from` <=> `_tidegate_log`.`valid_from` THEN named_struct(
        'column', 'valid_from', 'table', left(CAST(`_tidegate_table`.`valid_from` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`valid_from` AS STRING), 200)
      ) END,
      CASE WHEN NOT `_tidegate_table`.`valid_to` <=> `_tidegate_log`.`valid_to` THEN named_struct(
        'column', 'valid_to', 'table', left(CAST(`_tidegate_table`.`valid_to` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`valid_to` AS STRING), 200)
      ) END,
      CASE WHEN NOT `_tidegate_table`.`is_current` <=> `_tidegate_log`.`is_current` THEN named_struct(
        'column', 'is_current', 'table', left(CAST(`_tidegate_table`.`is_current` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`is_current` AS STRING), 200)
      ) END
    ), entry -> entry IS NOT NULL)
  ) AS difference
  FROM `_tidegate_compared`
  WHERE `_tidegate_kind` IN ('missing', 'surplus', 'different')
  ORDER BY to_json(struct(`_tidegate_key_1`, `_tidegate_key_2`, `_tidegate_key_3`))
  LIMIT 100
)
