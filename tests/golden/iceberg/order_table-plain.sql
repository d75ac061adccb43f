ALTER TABLE `lake`.`shop`.`orders` WRITE LOCALLY ORDERED BY `id`, `order id`
