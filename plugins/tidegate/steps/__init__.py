"""The verbs of a flush, in order, with what keeps tables small: one file per task of the DAG."""
