{{ column | from_key(field, key_structs | default(none)) }}
