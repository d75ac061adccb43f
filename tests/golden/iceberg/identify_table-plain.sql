ALTER TABLE `lake`.`shop`.`orders` SET IDENTIFIER FIELDS `id`, `order id`
