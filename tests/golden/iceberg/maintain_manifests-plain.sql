CALL `lake`.system.rewrite_manifests(table => '`shop`.`orders`')
