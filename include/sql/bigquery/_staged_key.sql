{{ column | from_key(field, key_as_held | default(none)) }}
