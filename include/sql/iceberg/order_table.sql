ALTER TABLE {{ table | name }} WRITE LOCALLY ORDERED BY {% for column in cluster_by %}{{ column | quoted }}{{ ", " if not loop.last }}{% endfor %}
