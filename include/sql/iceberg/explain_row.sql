-- How many rows the table has of the key, and the first of them.
SELECT to_json(named_struct('count', count(*), 'rows', slice(collect_list(row), 1, {{ max_rows }}))) FROM (
  SELECT left(to_json(struct({% for column in columns %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %})), {{ max_characters }}) AS row
  FROM {{ target | name }} VERSION AS OF {{ table_snapshot_id }}
  WHERE {{ of_row }}
)
