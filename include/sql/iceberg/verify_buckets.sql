-- How many rows are in buckets of keys whose checksums are those of the log, and the numbers of the other buckets.
{%- set side = "side" | ours %}
WITH {{ "sides" | ours }} AS (
{% include "_sides.sql" %}
)
SELECT to_json(named_struct(
  'equal', coalesce(sum(CASE WHEN is_same THEN table_rows END), 0L),
  'buckets', collect_list(CASE WHEN NOT is_same THEN bucket END)
)) FROM (
  SELECT bucket, count_if({{ side }} = 1) AS table_rows,
    sum({{ side }}) = 0 AND sum({{ side }} * (hash & 4294967295L)) = 0 AND sum({{ side }} * shiftrightunsigned(hash, 32)) = 0 AS is_same
  FROM (
    SELECT {{ side }}, {{ "bucket" | ours }} AS bucket, xxhash64({% for hashed in hashed_columns %}{{ hashed }}{{ ", " if not loop.last }}{% endfor %}) AS hash
    FROM {{ "sides" | ours }} s
  )
  GROUP BY bucket
)
