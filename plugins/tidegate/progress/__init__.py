"""How far a table, a topic and the consumer group have come, and every reason not to go on."""
