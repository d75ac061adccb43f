{#- BigQuery has no identifier fields. -#}
