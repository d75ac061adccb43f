ALTER TABLE {{ table | name }} SET IDENTIFIER FIELDS {% for column in identifiers %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %}
