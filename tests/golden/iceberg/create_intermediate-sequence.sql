CREATE TABLE IF NOT EXISTS `lake`.`shop`.`orders_shop_tmp` (
  key STRUCT<`id`: BIGINT>,
  value STRUCT<`id`: BIGINT, `name`: STRING>,
  sequence STRUCT<`lsn`: BIGINT, `a``b`: TIMESTAMP>,
  op STRING,
  topic STRING,
  partition INT,
  offset BIGINT,
  timestamp TIMESTAMP,
  partition_time TIMESTAMP,
  i BIGINT,
  batch_number BIGINT,
  attempt STRING
)
USING iceberg
PARTITIONED BY (batch_number)
TBLPROPERTIES (
  'format-version' = '2',
  'tidegate.kind' = 'intermediate',
  'tidegate.pipeline' = 'shop',
  'tidegate.table' = 'shop.orders',
  'tidegate.format' = '1',
  'tidegate.shape' = '0123456789ab',
  'tidegate.highest-batch' = '7',
  'write.distribution-mode' = 'none',
  'write.parquet.dict-size-bytes' = '4096',
  'write.metadata.delete-after-commit.enabled' = 'true',
  'write.metadata.previous-versions-max' = '3',
  'history.expire.max-snapshot-age-ms' = '315360000000',
  'commit.retry.num-retries' = '10'
)
