CREATE TABLE IF NOT EXISTS `my-project`.`my shop`.`or\`ders_shop_tmp` (
  key STRUCT<`order id` STRUCT<`a b` INT64>, `select` STRUCT<`a b` INT64>>,
  value STRUCT<`a\`b` STRUCT<`a b` INT64>, `c.d` STRUCT<`a b` INT64>, `größe` STRUCT<`a b` INT64>, `it's` STRUCT<`a b` INT64>, `名前` STRUCT<`a b` INT64>>,
  op STRING,
  topic STRING,
  `partition` INT64,
  `offset` INT64,
  `timestamp` TIMESTAMP,
  partition_time TIMESTAMP,
  i INT64,
  batch_number INT64,
  attempt STRING
)
PARTITION BY RANGE_BUCKET(batch_number, GENERATE_ARRAY(7, 9997, 1))
OPTIONS (
  labels = [('tidegate_shape', '0123456789ab'), ('tidegate_highest_batch', '7'), ('tidegate-kind', 'intermediate'), ('tidegate-owner', 'db7faf71f44ee479bd6013b86f9882aceb4c5672'), ('tidegate-format', '1')],
  description = '',
  expiration_timestamp = TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 30 DAY)
)
