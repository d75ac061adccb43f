{#- A table is clustered when it is created; rows are put in order by BigQuery itself. -#}
