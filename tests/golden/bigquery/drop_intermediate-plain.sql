DROP TABLE IF EXISTS `my-project`.`shop`.`orders_shop_tmp`
