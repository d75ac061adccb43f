{% if key_expressions is defined and column in key_expressions %}{{ key_expressions[column] }}{% else %}key{% if field is not none %}.{{ field | quoted }}{% endif %}{% endif %}
