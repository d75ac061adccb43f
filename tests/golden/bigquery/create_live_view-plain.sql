CREATE OR REPLACE VIEW `my-project`.`my shop`.`orders_shop_live` AS
SELECT 1 AS n
