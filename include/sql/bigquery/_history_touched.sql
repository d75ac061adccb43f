SELECT {% for column, _ in keys %}ANY_VALUE({{ column | quoted }}) AS {{ column | quoted }}{{ ", " if not loop.last }}{% endfor %} FROM (
        SELECT{% for column, field in keys %} {% include "_staged_key.sql" %} AS {{ column | quoted }}{{ "," if not loop.last }}{% endfor %} FROM {{ source | name }} WHERE {% include "_parts.sql" %} AND op <> 'bad'
      ) AS {{ "record" | ours }}
      GROUP BY {% with of = ("record" | ours) ~ "." %}{% include "_key.sql" %}{% endwith %}
