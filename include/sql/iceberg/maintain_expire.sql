CALL {{ catalog | quoted }}.system.expire_snapshots(
  table => {{ table | name | text }},
  older_than => TIMESTAMP {{ older_than | text }},
  retain_last => {{ retain_last }},
  stream_results => true
)
