-- The newest records of the key, and what became of each; how many there are, and from how many partitions they come.
WITH records AS (
SELECT *, CASE WHEN op = 'bad' THEN bad.stage ELSE 'staged' END AS fate
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 43
    WHERE batch_number = 1 AND attempt = '0af3'
)
SELECT to_json(named_struct(
  'count', count_if(fate <> 'key'),
  'count_ahead', count_if(fate <> 'key' AND batch_number <> 1),
  'partitions', count(DISTINCT CASE WHEN fate = 'staged' AND batch_number = 1 THEN struct(topic, partition) END),
  'unreadable', count_if(fate = 'key'),
  'unreadable_at', min(CASE WHEN fate = 'key' THEN concat_ws(':', topic, partition, offset) END),
  'records', collect_list(CASE WHEN fate <> 'key' AND rank <= 100 THEN named_struct(
    'topic', topic, 'partition', partition, 'offset', offset, 'i', i, 'at_ms', unix_millis(timestamp),
    'is_ahead', batch_number <> 1, 'fate', fate, 'op', op, 'reason', left(bad.message, 200),
    'value', left(to_json(value), 200)
  ) END)
))
FROM (
  SELECT *, row_number() OVER (PARTITION BY fate = 'key', batch_number ORDER BY offset DESC, i DESC) AS rank FROM records
)
