CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`tidegate_shop_names` (
  name STRING
)
OPTIONS (labels = [('tidegate-kind', 'names'), ('tidegate-owner', 'c4d120e671bb8a328fbc44f3e88fedc3a03c827c'), ('tidegate-format', '1')], description = 'Up to where Tidegate has looked for names of tables in records: its position stands beside it. Do not drop.')
