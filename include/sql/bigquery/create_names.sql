CREATE TABLE IF NOT EXISTS {{ table | name }} (
  name STRING
)
OPTIONS (labels = [{% include "_mark.sql" %}], description = 'Up to where Tidegate has looked for names of tables in records: its position stands beside it. Do not drop.')
