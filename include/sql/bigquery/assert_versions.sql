-- Another pipeline may have put one of these keys into a partition that was not looked at. This publish has moved its own
-- position by one since then.
ASSERT (SELECT SUM(version) FROM {{ positions | name }}) = {{ versions + 1 }}
AS 'tidegate: the position has moved: another pipeline has written the table'
