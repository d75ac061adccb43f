"""What a stage job is asked, and what it left: may it be merged, may a retry take it over, where does a task go on."""
