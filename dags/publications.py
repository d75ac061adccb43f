"""A DAG for each publication file that is right; refused_pipelines.py tells about the others."""

from tidegate.adapters.publication_file import load_publications
from tidegate.publications.publication import Publication
from tidegate.settings import include_folder
from tidegate_airflow.publication_dag import publication_dag

for name, publication in load_publications(include_folder()):
    if isinstance(publication, Publication):
        globals()[f"tidegate_publish_{name}"] = publication_dag(publication)
