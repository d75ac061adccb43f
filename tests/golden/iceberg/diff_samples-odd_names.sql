-- The first changed keys with their rows before and after, and how often each column changes in an updated row.
WITH `_tidegate_places` AS (
  SELECT t.`order id` AS `_tidegate_key_1`, t.`select` AS `_tidegate_key_2`,
    1 AS `_tidegate_place`,
    true AS `_tidegate_lives`,
    xxhash64(t.`id`, t.`id` IS NULL) AS `_tidegate_hash`,
    struct(t.`order id`, t.`select`, t.`a``b`, t.`c.d`, t.`größe`, t.`it's`, t.`名前`) AS `_tidegate_row`
  FROM `lake`.`my shop`.`or``ders` t
  LEFT SEMI JOIN (
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
  ) s ON t.`order id` <=> s.`order id` AND t.`select` <=> s.`select`
  UNION ALL
  SELECT t.`order id` AS `_tidegate_key_1`, t.`select` AS `_tidegate_key_2`,
    2 AS `_tidegate_place`,
    true AS `_tidegate_lives`,
    xxhash64(t.`id`, t.`id` IS NULL) AS `_tidegate_hash`,
    struct(t.`order id`, t.`select`, t.`a``b`, t.`c.d`, t.`größe`, t.`it's`, t.`名前`) AS `_tidegate_row`
  FROM `lake`.`my shop`.`or``ders`.`branch_tidegate_shop_7_0af3` t
  LEFT SEMI JOIN (
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
  ) s ON t.`order id` <=> s.`order id` AND t.`select` <=> s.`select`
),
`_tidegate_changed` AS (
  SELECT *, CASE
    WHEN `_tidegate_rows_1` = 0 AND `_tidegate_rows_2` > 0 THEN 'inserted'
    WHEN `_tidegate_rows_1` > 0 AND `_tidegate_rows_2` = 0 THEN 'deleted'
    ELSE 'updated'
  END AS `_tidegate_kind` FROM (
    SELECT `_tidegate_key_1`, `_tidegate_key_2`,
      count_if(`_tidegate_place` = 1 AND `_tidegate_lives`) AS `_tidegate_rows_1`,
      count_if(`_tidegate_place` = 1) AS `_tidegate_count_1`,
      coalesce(sum(`_tidegate_hash` & 4294967295L) FILTER (WHERE `_tidegate_place` = 1), 0L) AS `_tidegate_low_1`,
      coalesce(sum(shiftrightunsigned(`_tidegate_hash`, 32)) FILTER (WHERE `_tidegate_place` = 1), 0L) AS `_tidegate_high_1`,
      first(`_tidegate_row`) FILTER (WHERE `_tidegate_place` = 1 AND `_tidegate_lives`) AS `_tidegate_row_1`,
      count_if(`_tidegate_place` = 2 AND `_tidegate_lives`) AS `_tidegate_rows_2`,
      count_if(`_tidegate_place` = 2) AS `_tidegate_count_2`,
      coalesce(sum(`_tidegate_hash` & 4294967295L) FILTER (WHERE `_tidegate_place` = 2), 0L) AS `_tidegate_low_2`,
      coalesce(sum(shiftrightunsigned(`_tidegate_hash`, 32)) FILTER (WHERE `_tidegate_place` = 2), 0L) AS `_tidegate_high_2`,
      first(`_tidegate_row`) FILTER (WHERE `_tidegate_place` = 2 AND `_tidegate_lives`) AS `_tidegate_row_2`
    FROM `_tidegate_places`
    GROUP BY `_tidegate_key_1`, `_tidegate_key_2`
  )
  WHERE `_tidegate_count_1` <> `_tidegate_count_2` OR `_tidegate_low_1` <> `_tidegate_low_2` OR `_tidegate_high_1` <> `_tidegate_high_2`
)
SELECT to_json(named_struct(
  'columns', (
    SELECT filter(array(
      named_struct('column', 'order id', 'rows', count_if(`_tidegate_kind` = 'updated' AND NOT sort_array(transform(map_entries(`_tidegate_row_1`.`order id`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_row_2`.`order id`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))))),
      named_struct('column', 'select', 'rows', count_if(`_tidegate_kind` = 'updated' AND NOT sort_array(transform(map_entries(`_tidegate_row_1`.`select`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_row_2`.`select`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))))),
      named_struct('column', 'a`b', 'rows', count_if(`_tidegate_kind` = 'updated' AND NOT sort_array(transform(map_entries(`_tidegate_row_1`.`a``b`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_row_2`.`a``b`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))))),
      named_struct('column', 'c.d', 'rows', count_if(`_tidegate_kind` = 'updated' AND NOT sort_array(transform(map_entries(`_tidegate_row_1`.`c.d`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_row_2`.`c.d`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))))),
      named_struct('column', 'größe', 'rows', count_if(`_tidegate_kind` = 'updated' AND NOT sort_array(transform(map_entries(`_tidegate_row_1`.`größe`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_row_2`.`größe`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))))),
      named_struct('column', 'it\'s', 'rows', count_if(`_tidegate_kind` = 'updated' AND NOT sort_array(transform(map_entries(`_tidegate_row_1`.`it's`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_row_2`.`it's`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))))),
      named_struct('column', '名前', 'rows', count_if(`_tidegate_kind` = 'updated' AND NOT sort_array(transform(map_entries(`_tidegate_row_1`.`名前`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value))) <=> sort_array(transform(map_entries(`_tidegate_row_2`.`名前`), _tidegate_0 -> struct(_tidegate_0.key AS key, _tidegate_0.value AS value)))))
    ), entry -> entry.rows > 0) FROM `_tidegate_changed`
  ),
  'samples', (
    SELECT collect_list(sample) FROM (
      SELECT named_struct(
        'kind', `_tidegate_kind`,
        'before', left(to_json(`_tidegate_row_1`), 200),
        'after', left(to_json(`_tidegate_row_2`), 200)
      ) AS sample
      FROM `_tidegate_changed`
      ORDER BY `_tidegate_kind`, `_tidegate_key_1`, `_tidegate_key_2`
      LIMIT 20
    )
  )
))
