  SELECT * FROM (
    SELECT *, row_number() OVER (
      PARTITION BY {% for column, _ in keys %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %}
      ORDER BY {{ "offset" | ours }} DESC, {{ "i" | ours }} DESC
    ) AS {{ "rank" | ours }}
    FROM (
{% include "_staged.sql" %}
    )
  )
  WHERE {{ "rank" | ours }} = 1
