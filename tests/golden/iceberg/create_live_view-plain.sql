CREATE OR REPLACE VIEW `lake`.`my shop`.`orders_shop_live` AS
SELECT 1 AS n
