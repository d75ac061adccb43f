CALL {{ catalog | quoted }}.system.rewrite_data_files(
  table => {{ table | name | text }},
  options => map(
    'remove-dangling-deletes', 'true',
    'delete-file-threshold', '{{ delete_files }}',
    'delete-ratio-threshold', '{{ deleted_share }}'
  )
)
