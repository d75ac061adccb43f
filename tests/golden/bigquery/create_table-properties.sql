CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`orders` (
  `id` INT64 NOT NULL,
  `at` TIMESTAMP,
  `m` ARRAY<STRUCT<`key` STRING, `value` BIGNUMERIC(38, 18)>>
)
PARTITION BY _PARTITIONDATE
OPTIONS (
  require_partition_filter = TRUE,
  partition_expiration_days = 90.0,
  description = 'it\'s'
)
