CALL {{ catalog | quoted }}.system.rewrite_position_delete_files(table => {{ table | name | text }})
