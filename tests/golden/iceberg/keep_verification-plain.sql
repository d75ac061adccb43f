ALTER TABLE `lake`.`my shop`.`orders` SET TBLPROPERTIES ('tidegate.shop.verified' = '{"it\'s": 1}')
