    FROM {{ source | name }}
    WHERE op <> 'bad' AND array_contains((SELECT collect_list(attempt) FROM {{ "batches" | ours }}), attempt)
{#- Spark evaluates a subquery once, and a side of a join each time that the rows are read. -#}
