CALL `lake`.system.expire_snapshots(
  table => '`shop`.`orders`',
  older_than => TIMESTAMP '2026-01-01 00:00:00',
  retain_last => 30,
  stream_results => true
)
