-- An attempt whose rows are all loaded: what a view can read of it. No merge does: the row has no attempt, and no record.
INSERT INTO `my-project`.`shop`.`orders_shop_tmp` (op, topic, batch_number)
VALUES ('bad', '{"attempt": "it\'s"}', 7)
