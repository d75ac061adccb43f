-- where the table stands, if it is still the one that this text was made for
{{ "position" | ours }} AS (
  SELECT
    JSON_VALUE(properties, {{ ('$."' ~ mark ~ 'position"') | text }}) AS offsets,
    CAST(JSON_VALUE(properties, {{ ('$."' ~ mark ~ 'batch"') | text }}) AS INT64) AS batch
  FROM {{ positions | name }}
  WHERE pipeline = {{ pipeline | text }} AND JSON_VALUE(properties, '$.table') = {{ uuid | text }}
),
-- complete attempts that this text can read: each has a mark. Of a number that two runs staged at once, merges take the last.
{{ "attempts" | ours }} AS (
  SELECT batch, attempt, begins, ends FROM (
    SELECT
      batch_number AS batch, JSON_VALUE(topic, '$.attempt') AS attempt, JSON_VALUE(topic, '$.start') AS begins, JSON_VALUE(topic, '$.end') AS ends,
      JSON_VALUE(topic, '$.shape') AS shape, COALESCE(JSON_VALUE(topic, '$.table_uuid'), {{ uuid | text }}) AS table_uuid
    FROM {{ source | name }}
    WHERE op = 'bad' AND attempt IS NULL
    QUALIFY ROW_NUMBER() OVER (PARTITION BY batch_number ORDER BY CAST(JSON_VALUE(topic, '$.number') AS INT64) DESC) = 1
  )
  WHERE shape = {{ shape | text }} AND table_uuid = {{ uuid | text }}
),
-- those that are not published, and continue from the position without a gap; partitions that it does not have may join
{{ "batches" | ours }} AS (
  SELECT live_batch, live_attempt FROM (
    SELECT batch AS live_batch, attempt AS live_attempt, LOGICAL_AND(continues) OVER (ORDER BY batch) AS is_next
    FROM (
      -- the texts are equal for equal offsets, and a topic's new partitions stand behind those that it had
      SELECT batch, attempt, before IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM UNNEST(REGEXP_EXTRACT_ALL(before, r'"[^"]+":\{[^}]*')) AS parts
        WHERE STRPOS(begins, CONCAT(parts, '}')) = 0 AND STRPOS(begins, CONCAT(parts, ',')) = 0
      ) AS continues
      FROM (
        SELECT a.*, COALESCE(LAG(a.ends) OVER (ORDER BY a.batch), p.offsets) AS before
        FROM {{ "position" | ours }} AS p
        JOIN {{ "attempts" | ours }} AS a ON a.batch > p.batch
      )
    )
  )
  WHERE is_next
),
