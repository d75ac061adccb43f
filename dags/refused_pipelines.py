"""Shows broken files of pipelines and publications as an import error in the UI. Defines no DAG itself."""

from airflow.sdk.exceptions import AirflowException
from tidegate.config.pipeline_file import load_all
from tidegate.config.publication_file import load_publications
from tidegate.errors import ConfigurationError
from tidegate.settings import include_folder

loaded = [*load_all(include_folder()), *load_publications(include_folder())]
refused = [found for _, found in loaded if isinstance(found, ConfigurationError)]
if refused:
    raise AirflowException("\n".join(str(problem) for problem in refused))
