CALL `lake`.system.rewrite_data_files(
  table => '`shop`.`orders`',
  options => map(
    'remove-dangling-deletes', 'true',
    'delete-file-threshold', '10',
    'delete-ratio-threshold', '0.1'
  )
)
