    FROM {{ source | name }} r LEFT SEMI JOIN {{ "batches" | ours }} b ON r.batch_number = b.batch AND r.attempt = b.attempt
    WHERE op <> 'bad'