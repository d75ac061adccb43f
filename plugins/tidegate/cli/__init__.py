"""The command line: the functions behind the DAG's tasks, for people and scripts."""
