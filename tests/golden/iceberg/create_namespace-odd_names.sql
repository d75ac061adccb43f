CREATE NAMESPACE IF NOT EXISTS `lake`.`my shop`.`a``b`
