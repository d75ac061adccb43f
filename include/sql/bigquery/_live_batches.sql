-- where the table stands, if it is still the one that this text was made for
{{ "position" | ours }} AS (
  SELECT
    JSON_VALUE(properties, {{ ('$."' ~ mark ~ 'position"') | text }}) AS offsets,
    CAST(JSON_VALUE(properties, {{ ('$."' ~ mark ~ 'batch"') | text }}) AS INT64) AS batch
  FROM {{ positions | name }}
  WHERE pipeline = {{ pipeline | text }} AND JSON_VALUE(properties, '$.table') = {{ uuid | text }}
),
-- complete attempts that this text can read: each has a mark
{{ "attempts" | ours }} AS (
  SELECT DISTINCT
    batch_number AS batch, JSON_VALUE(topic, '$.attempt') AS attempt, JSON_VALUE(topic, '$.start') AS begins, JSON_VALUE(topic, '$.end') AS ends
  FROM {{ source | name }}
  WHERE op = 'bad' AND attempt IS NULL AND JSON_VALUE(topic, '$.shape') = {{ shape | text }}
    AND COALESCE(JSON_VALUE(topic, '$.table_uuid'), {{ uuid | text }}) = {{ uuid | text }}
),
-- those that are not published, and continue from the position without a gap
{{ "batches" | ours }} AS (
  SELECT live_batch, live_attempt FROM (
    SELECT batch AS live_batch, attempt AS live_attempt, LOGICAL_AND(COALESCE(begins = before, FALSE)) OVER (ORDER BY batch) AS is_next
    FROM (
      SELECT a.*, COALESCE(LAG(a.ends) OVER (ORDER BY a.batch), p.offsets) AS before
      FROM {{ "position" | ours }} AS p
      JOIN {{ "attempts" | ours }} AS a ON a.batch > p.batch
    )
  )
  WHERE is_next
),
