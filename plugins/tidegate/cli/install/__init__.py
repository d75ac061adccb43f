"""What an installed package needs around it: the files of an Airflow, and the jars of a Spark."""
