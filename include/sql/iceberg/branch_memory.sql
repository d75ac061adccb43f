ALTER TABLE {{ table | name }} CREATE BRANCH IF NOT EXISTS {{ branch | quoted }}
