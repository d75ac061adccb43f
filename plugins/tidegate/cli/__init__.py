"""The command line: the functions that the DAG's tasks run, for people and scripts."""
