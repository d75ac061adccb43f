-- How many rows the table has of the key, and the first of them.
SELECT to_json(named_struct('count', count(*), 'rows', slice(collect_list(row), 1, 10))) FROM (
  SELECT left(to_json(struct(`order id`, `select`, `a``b`, `c.d`, `größe`, `it's`, `名前`)), 200) AS row
  FROM `lake`.`my shop`.`or``ders` VERSION AS OF 42
  WHERE `id` <=> from_json('{"id": 7}', '`id` BIGINT', map('mode', 'FAILFAST')).`id`
)
