"""Shows broken files of pipelines and publications as an import error in the UI. Defines no DAG itself."""

from airflow.sdk.exceptions import AirflowException
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.config.publication_file import load_publications
from tidegate.errors import ConfigurationError
from tidegate.settings import find_include_folder

loaded = [*load_all_pipelines(find_include_folder()), *load_publications(find_include_folder())]
refused = [found for _, found in loaded if isinstance(found, ConfigurationError)]
if refused:
    raise AirflowException("\n".join(str(problem) for problem in refused))
