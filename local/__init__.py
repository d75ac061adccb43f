"""The local stack: a real Kafka broker, a Spark Connect server and Airflow on one machine, for people and for tests."""
