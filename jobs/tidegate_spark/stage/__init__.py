"""The stage job: one read of Kafka, decoded, judged, counted, and written to the intermediate tables."""
