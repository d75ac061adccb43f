CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`tidegate_shop_names` (
  name STRING
)
OPTIONS (description = 'Up to where Tidegate has looked for names of tables in records: its position stands beside it. Do not drop.')
