{#- The staged records of the key, those behind the position too. A record that makes no row is `bad`, and its stage says why. -#}
    SELECT *, CASE WHEN op = 'bad' THEN bad.stage ELSE 'staged' END AS fate
    FROM {{ source | name }} VERSION AS OF {{ last_snapshot_id }}
    WHERE {% with parts = seen_parts %}{% include "_parts.sql" %}{% endwith %}
