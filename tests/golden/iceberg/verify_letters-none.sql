-- How many records are bad today that no dead letter names: the table may have their rows.
SELECT count(*) FROM `lake`.`shop`.`orders_shop_tmp` VERSION AS OF 42 r
WHERE batch_number = 1 AND attempt = '0af3' AND op = 'bad' AND bad.stage IN ('key', 'value')
