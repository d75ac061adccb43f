"""A DAG for each publication file that is right; refused_pipelines.py tells about the others."""

from tidegate.config.publication_file import load_publications
from tidegate.settings import find_include_folder
from tidegate.spec.publication import Publication
from tidegate_airflow.dags.publication import build_publication_dag

for name, publication in load_publications(find_include_folder()):
    if isinstance(publication, Publication):
        globals()[f"tidegate_publish_{name}"] = build_publication_dag(publication)
