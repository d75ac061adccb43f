named_struct({% for column in sequence %}{{ column | text }}, t.{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %})
