  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY {% include "_key.sql" %}
      ORDER BY {{ "offset" | ours }} DESC, {{ "i" | ours }} DESC
    ) AS {{ "rank" | ours }}
    FROM (
{% include "_staged.sql" %}
    )
  )
  WHERE {{ "rank" | ours }} = 1
