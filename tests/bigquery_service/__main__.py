"""`make verify-bigquery PROJECT=…`: the contract suite and the statements of every mode against the service itself.

It creates a dataset called `shop` and removes it. If one exists already, it stays as it is, and nothing runs.
"""

import os
import subprocess
import sys

SUITES = (
    "tests/contract/test_bigquery.py",
    "tests/contract/test_destination.py",
    "tests/integration/test_bigquery_modes.py",
)
# A warning is an error in these tests, and this one is of how a person has logged in.
LOGIN_WARNING = "ignore:Your application has authenticated using end user credentials:UserWarning"


def main(project: str, location: str, arguments: list[str]) -> int:
    """Run the suites; 0 when all passed, 1 when one failed, 2 when nothing could be run."""
    from google.api_core.exceptions import GoogleAPIError, NotFound
    from google.auth.exceptions import GoogleAuthError
    from google.cloud import bigquery

    try:
        client = bigquery.Client(project=project, location=location or None)
        client.get_dataset(f"{project}.shop")
        print(f"project={project}: it has a dataset called shop; the suite would empty it; use another project")
        return 2
    except NotFound:
        pass
    except (GoogleAPIError, GoogleAuthError, OSError) as error:
        print(f"project={project}: {error}; run gcloud auth application-default login, and look at its roles")
        return 2
    command = [sys.executable, "-m", "pytest", *SUITES, "-k", "bigquery", "-v", "-W", LOGIN_WARNING, *arguments]
    place = {"TIDEGATE_BIGQUERY_PROJECT": project, "TIDEGATE_BIGQUERY_LOCATION": location}
    try:
        return subprocess.call(command, env={**os.environ, **place})
    finally:
        client.delete_dataset(f"{project}.shop", delete_contents=True, not_found_ok=True)


if __name__ == "__main__":
    if len(sys.argv) < 3 or not sys.argv[1]:
        sys.exit("usage: make verify-bigquery PROJECT=my-project [LOCATION=EU]")
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
