"""Shows broken files of pipelines and publications as an import error in the UI. Defines no DAG itself."""

from tidegate_airflow.dag_files import raise_refused_files

raise_refused_files()
