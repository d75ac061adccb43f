CREATE SCHEMA IF NOT EXISTS {{ parent | name }}
