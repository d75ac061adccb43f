-- Another pipeline may have put one of these keys into a partition that was not looked at.
ASSERT (SELECT SUM(version) FROM {{ positions | name }}) = {{ versions }}
AS 'tidegate: the position has moved: another pipeline has written the table'
