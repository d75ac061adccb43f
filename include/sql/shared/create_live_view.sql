CREATE OR REPLACE VIEW {{ view | name }} AS
{{ query }}
