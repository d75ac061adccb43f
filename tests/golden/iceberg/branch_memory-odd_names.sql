ALTER TABLE `lake`.`my shop`.`it's_deletes` CREATE BRANCH IF NOT EXISTS `tidegate_it's_7_0af3`
