"""What a flush needs, checked: findings, the table of checks, and what facts about each system mean. No I/O here."""
