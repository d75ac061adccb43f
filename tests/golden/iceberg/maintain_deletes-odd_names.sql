CALL `my-lake`.system.rewrite_position_delete_files(table => '`my shop`.`it\'s a``b`')
