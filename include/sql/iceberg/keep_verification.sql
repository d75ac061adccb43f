ALTER TABLE {{ target | name }} SET TBLPROPERTIES ({{ property | text }} = {{ verification | text }})
