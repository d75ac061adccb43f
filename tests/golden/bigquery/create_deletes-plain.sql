CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`orders_deletes` (
  `id` INT64,
  `name` STRING
)
