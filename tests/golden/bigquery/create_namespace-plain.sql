CREATE SCHEMA IF NOT EXISTS `my-project`.`shop`
