ALTER TABLE `lake`.`my shop`.`orders_tmp` UNSET TBLPROPERTIES IF EXISTS ('tidegate.audit.it\'s')
