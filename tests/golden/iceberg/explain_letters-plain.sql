-- The dead letters of this table at the places of the key's records.
WITH records AS (
SELECT *, CASE WHEN op = 'bad' THEN bad.stage ELSE 'staged' END AS fate
    FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 43
    WHERE batch_number = 1 AND attempt = '0af3'
)
SELECT to_json(collect_list(named_struct(
  'topic', topic, 'partition', partition, 'offset', offset, 'topic_id', topic_id, 'stage', stage,
  'reason', left(message, 200), 'written_at_ms', unix_millis(written_at), 'over_at_ms', unix_millis(replayed_at),
  'replayed_by', replayed_by
))) FROM `lake`.`my shop`.`l``s` VERSION AS OF 78 l LEFT SEMI JOIN records r
ON l.topic = r.topic AND l.partition = r.partition AND l.offset = r.offset
WHERE l.`table` = 'lake.shop.orders'
