-- The first keys that differ: of a row on one side alone the whole row, else the columns that differ.
WITH `_tidegate_sides` AS (
SELECT *, pmod(xxhash64(`order id`, `order id` IS NULL, `select`, `select` IS NULL), 1024) AS `_tidegate_bucket` FROM (
    SELECT `order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`,
      1L AS `_tidegate_side`
    FROM `lake`.`my shop`.`or``ders` VERSION AS OF 42
    UNION ALL
SELECT s.`order id`, s.`select`, s.`a``b`, s.`c.d`, s.`größe`, s.`it's`, s.`名前`,
      -1L AS `_tidegate_side`
    FROM (
  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY `order id`, `select`
      ORDER BY `_tidegate_offset` DESC, `_tidegate_i` DESC
    ) AS `_tidegate_rank`
    FROM (
    SELECT
      key.`order id` AS `order id`,
      key.`select` AS `select`,
      value.`a``b` AS `a``b`,
      value.`c.d` AS `c.d`,
      value.`größe` AS `größe`,
      value.`it's` AS `it's`,
      value.`名前` AS `名前`,
      op AS `_tidegate_op`, topic AS `_tidegate_topic`, offset AS `_tidegate_offset`, i AS `_tidegate_i`
    FROM `lake`.`my shop`.`or``ders_shop_tmp` VERSION AS OF 8154213786245100123
    WHERE batch_number = 7 AND attempt = '0af3' AND op <> 'bad'
    )
  )
  WHERE `_tidegate_rank` = 1

    ) s
    WHERE s.`_tidegate_op` <> 'd'
  )
  WHERE pmod(xxhash64(`order id`, `order id` IS NULL, `select`, `select` IS NULL), 1000000) < 10000
),
`_tidegate_pairs` AS (
  SELECT `order id` AS `_tidegate_key_1`, `select` AS `_tidegate_key_2`,
    count_if(`_tidegate_side` = 1) AS `_tidegate_rows`, count_if(`_tidegate_side` = -1) AS `_tidegate_expected`,
    first(struct(`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`)) FILTER (WHERE `_tidegate_side` = 1) AS `_tidegate_table`,
    first(struct(`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`)) FILTER (WHERE `_tidegate_side` = -1) AS `_tidegate_log`
  FROM `_tidegate_sides`
  WHERE `_tidegate_bucket` IN (3, 900)
  GROUP BY `order id`, `select`
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
      SELECT DISTINCT topic, partition, offset FROM `lake`.`my shop`.`l``s` VERSION AS OF 78 WHERE `table` = 'lake.my shop.or`ders' AND NOT coalesce(topic_id <> CASE topic WHEN 'it\'s' THEN 't-1' END, false)
    ) l ON l.topic = r.`_tidegate_topic` AND l.partition = r.`_tidegate_partition` AND l.offset = r.`_tidegate_offset`
  )
  GROUP BY `order id`, `select`
),
`_tidegate_compared` AS (
  SELECT p.*,
    CASE
      WHEN p.`_tidegate_rows` = 1 AND p.`_tidegate_expected` = 1
        AND sort_array(transform(map_entries(p.`_tidegate_table`.`order id`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(p.`_tidegate_log`.`order id`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))
        AND sort_array(transform(map_entries(p.`_tidegate_table`.`select`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(p.`_tidegate_log`.`select`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))
        AND sort_array(transform(map_entries(p.`_tidegate_table`.`a``b`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(p.`_tidegate_log`.`a``b`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))
        AND sort_array(transform(map_entries(p.`_tidegate_table`.`c.d`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(p.`_tidegate_log`.`c.d`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))
        AND sort_array(transform(map_entries(p.`_tidegate_table`.`größe`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(p.`_tidegate_log`.`größe`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))
        AND sort_array(transform(map_entries(p.`_tidegate_table`.`it's`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(p.`_tidegate_log`.`it's`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))
        AND sort_array(transform(map_entries(p.`_tidegate_table`.`名前`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(p.`_tidegate_log`.`名前`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) THEN 'equal'
      WHEN coalesce(f.`_tidegate_doubt` OR f.`_tidegate_spread`, false) THEN 'unknowable'
      WHEN p.`_tidegate_rows` = 0 THEN 'missing'
      WHEN p.`_tidegate_expected` = 0 OR p.`_tidegate_rows` > 1 THEN 'surplus'
      ELSE 'different'
    END AS `_tidegate_kind`
  FROM `_tidegate_pairs` p LEFT JOIN `_tidegate_facts` f
  ON p.`_tidegate_key_1` <=> f.`_tidegate_key_1` AND p.`_tidegate_key_2` <=> f.`_tidegate_key_2`
)
SELECT to_json(collect_list(difference)) FROM (
  SELECT named_struct(
    'kind', `_tidegate_kind`,
    'key', to_json(struct(coalesce(`_tidegate_table`, `_tidegate_log`).`order id`, coalesce(`_tidegate_table`, `_tidegate_log`).`select`), map('timestampFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSSXXX', 'timestampNTZFormat', 'yyyy-MM-dd\'T\'HH:mm:ss.SSSSSS')),
    'rows', `_tidegate_rows`,
    'table', left(to_json(`_tidegate_table`), 200), 'log', left(to_json(`_tidegate_log`), 200),
    'columns', filter(array(
      CASE WHEN NOT sort_array(transform(map_entries(`_tidegate_table`.`order id`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_log`.`order id`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) THEN named_struct(
        'column', 'order id', 'table', left(CAST(`_tidegate_table`.`order id` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`order id` AS STRING), 200)
      ) END,
      CASE WHEN NOT sort_array(transform(map_entries(`_tidegate_table`.`select`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_log`.`select`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) THEN named_struct(
        'column', 'select', 'table', left(CAST(`_tidegate_table`.`select` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`select` AS STRING), 200)
      ) END,
      CASE WHEN NOT sort_array(transform(map_entries(`_tidegate_table`.`a``b`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_log`.`a``b`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) THEN named_struct(
        'column', 'a`b', 'table', left(CAST(`_tidegate_table`.`a``b` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`a``b` AS STRING), 200)
      ) END,
      CASE WHEN NOT sort_array(transform(map_entries(`_tidegate_table`.`c.d`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_log`.`c.d`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) THEN named_struct(
        'column', 'c.d', 'table', left(CAST(`_tidegate_table`.`c.d` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`c.d` AS STRING), 200)
      ) END,
      CASE WHEN NOT sort_array(transform(map_entries(`_tidegate_table`.`größe`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_log`.`größe`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) THEN named_struct(
        'column', 'größe', 'table', left(CAST(`_tidegate_table`.`größe` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`größe` AS STRING), 200)
      ) END,
      CASE WHEN NOT sort_array(transform(map_entries(`_tidegate_table`.`it's`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_log`.`it's`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) THEN named_struct(
        'column', 'it\'s', 'table', left(CAST(`_tidegate_table`.`it's` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`it's` AS STRING), 200)
      ) END,
      CASE WHEN NOT sort_array(transform(map_entries(`_tidegate_table`.`名前`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_log`.`名前`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) THEN named_struct(
        'column', '名前', 'table', left(CAST(`_tidegate_table`.`名前` AS STRING), 200), 'log', left(CAST(`_tidegate_log`.`名前` AS STRING), 200)
      ) END
    ), entry -> entry IS NOT NULL)
  ) AS difference
  FROM `_tidegate_compared`
  WHERE `_tidegate_kind` IN ('missing', 'surplus', 'different')
  ORDER BY to_json(struct(`_tidegate_key_1`, `_tidegate_key_2`))
  LIMIT 100
)
