"""The jobs that run rendered SQL: merge and maintain."""
