CALL `lake`.system.remove_orphan_files(
  table => '`shop`.`orders`',
  older_than => TIMESTAMP '2026-01-01 00:00:00'
)
