"""Shows broken pipeline files as an import error in the UI, while the others keep running. Defines no DAG itself."""

from airflow.sdk.exceptions import AirflowException
from tidegate.adapters.pipeline_file import load_all
from tidegate.errors import ConfigurationError
from tidegate.settings import include_folder

refused = [found for _, found in load_all(include_folder()) if isinstance(found, ConfigurationError)]
if refused:
    raise AirflowException("\n".join(str(problem) for problem in refused))
