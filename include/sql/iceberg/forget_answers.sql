ALTER TABLE {{ target | name }} UNSET TBLPROPERTIES IF EXISTS ({{ property | text }})
