"""The files that ``tidegate airflow install`` writes: DAG files of two lines, and an include folder to begin with."""

ALL_DAGS = '''"""Tidegate's DAGs, those of each file that is right. Written by `tidegate airflow install`."""

from tidegate_airflow.dag_files import build_all_dags

globals().update(build_all_dags())
'''

REFUSED_FILES = '''"""Shows broken files of Tidegate as an import error. Written by `tidegate airflow install`."""

from tidegate_airflow.dag_files import raise_refused_files

raise_refused_files()
'''

CATALOGS = """\
# Where tables live: one entry for each catalog. ${TIDEGATE_HOME} is AIRFLOW_HOME unless it is set;
# other ${NAMES} come from the environment and must be set. Secrets belong
# into an Airflow connection, named here by `connection:`.

# To begin with: Iceberg on one machine, which Spark and Airflow share. Nothing is made before the first flush.
lake:
  type: iceberg
  properties:
    type: sql
    uri: sqlite:///${TIDEGATE_HOME}/lake/catalog.db
    warehouse: file://${TIDEGATE_HOME}/lake/warehouse

# Iceberg behind a REST catalog:
# lake:
#   type: iceberg
#   connection: lake_rest             # an Airflow connection: token, credential, keys of the object store
#   properties:
#     type: rest
#     uri: https://catalog.example.com
#     warehouse: s3://bucket/prefix

# BigQuery:
# warehouse:
#   type: bigquery
#   project: my-project
#   location: EU
#   staging: gs://my-bucket/tidegate
"""
# under the dags folder; not tidegate.py, which `python dags/tidegate.py` would take for the package of that name
DAG_FILES = {"tidegate_dags.py": ALL_DAGS, "tidegate_refused_files.py": REFUSED_FILES}
INCLUDE_FILES = {"catalogs.yaml": CATALOGS}
INCLUDE_FOLDERS = ("pipelines", "publications")
