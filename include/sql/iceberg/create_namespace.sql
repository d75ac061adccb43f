CREATE NAMESPACE IF NOT EXISTS {{ namespace | name }}
