CREATE TABLE IF NOT EXISTS {{ table | name }} (
  pipeline STRING NOT NULL,
  version INT64 NOT NULL,
  attempt STRING,
  properties STRING,
  changed TIMESTAMP
)
OPTIONS (labels = [{% include "_mark.sql" %}], description = 'Where each Tidegate pipeline stands that writes this table. Do not edit.')
