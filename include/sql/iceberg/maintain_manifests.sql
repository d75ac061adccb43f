CALL {{ catalog | quoted }}.system.rewrite_manifests(table => {{ table | name | text }})
