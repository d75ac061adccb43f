DROP TABLE IF EXISTS `lake`.`shop`.`orders_shop_tmp` PURGE
