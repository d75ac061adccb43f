      FROM {{ source | name }} JOIN {{ "batches" | ours }} ON batch_number = live_batch AND attempt = live_attempt
      WHERE op <> 'bad'
