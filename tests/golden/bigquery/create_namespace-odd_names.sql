CREATE SCHEMA IF NOT EXISTS `my-project`.`my shop`.`a\`b`
