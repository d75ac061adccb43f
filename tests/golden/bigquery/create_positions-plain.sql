CREATE TABLE IF NOT EXISTS `my-project`.`shop`.`orders_tidegate_position` (
  pipeline STRING NOT NULL,
  version INT64 NOT NULL,
  attempt STRING,
  properties STRING,
  changed TIMESTAMP
)
OPTIONS (labels = [('tidegate-kind', 'positions'), ('tidegate-owner', '8c0863ba661ac923f51fbde039a8f08b67c10430'), ('tidegate-format', '1')], description = 'Where each Tidegate pipeline stands that writes this table. Do not edit.')
