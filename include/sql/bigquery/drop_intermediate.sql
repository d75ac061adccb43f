DROP TABLE IF EXISTS {{ table | name }}
