-- Another pipeline may have put one of these keys into a partition that was not looked at. This publish has moved its own
-- position by one since then.
ASSERT (SELECT SUM(version) FROM `my-project`.`shop`.`orders_tidegate_position`) = 18
AS 'tidegate: the position has moved: another pipeline has written the table'
