{{ change_expressions[column] if change_expressions is defined and column in change_expressions else "m." ~ (column | quoted) }}
