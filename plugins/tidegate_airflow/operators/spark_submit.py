"""The tasks of clusters without a Connect server: the steps of `VerbOperator`, with spark-submit as their Spark."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException
from tidegate.errors import RetryLater
from tidegate.ports.session import Job
from tidegate.settings import find_include_folder

from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.operators.step import JobLink, RunsVerb


class SubmitOperator(RunsVerb, SparkSubmitOperator):
    """A `VerbOperator` whose Spark jobs are submitted: it is its step's engine, and each job is one spark-submit."""

    template_fields = (*SparkSubmitOperator.template_fields, "given", "backfill")
    operator_extra_links = (JobLink(),)

    def __init__(self, *, verb: str, pipeline: str, given: Any = None, backfill: Any = None, **kwargs: Any) -> None:
        # a step may run several jobs: Airflow would take the second one for the first, which its task's state names
        super().__init__(**{**kwargs, "durable": False})
        self.verb = verb
        self.pipeline = pipeline
        self.given = given
        self.backfill = backfill

    def resume_step(self, context: Context, memory: Mapping[str, Any], event: Any = None) -> Any:
        self._context = context
        self.engine = self
        return super().resume_step(context, memory, event)

    def run(self, job: Job) -> None:
        """Submit one job and wait for it; the error that ended it keeps its kind."""
        from tidegate.adapters.spark.entry_points import get_verb
        from tidegate.adapters.spark.submit import (
            CONNECT_VARIABLES,
            build_arguments,
            build_job_conf,
            find_spark_home,
            get_application,
            pack_files,
        )
        from tidegate.adapters.spark.target import require_submit_connection
        from tidegate.wiring.pipeline import list_local_jars

        require_submit_connection(self._conn_id, resolve_connection)
        for name in CONNECT_VARIABLES:
            os.environ.pop(name, None)
        with pack_files({**self._build_private_conf(), **build_job_conf(job)}) as files:
            self.application = get_application(job)
            self.application_args = build_arguments(job)
            self.properties_file = files.properties
            self.py_files = files.libraries
            self.jars = list_local_jars() or None
            self.env_vars = {"SPARK_HOME": str(find_spark_home()), "PYSPARK_PYTHON": sys.executable}
            self.name = f"tidegate {self.verb} {job.pipeline} {job.batch}"
            self._hook = None
            try:
                SparkSubmitOperator.execute(self, self._context)
            except AirflowException as failure:
                place = f"pipeline={job.pipeline} batch={job.batch}: spark-submit of {self.verb}"
                # Airflow's own text is the whole command line; what happened stands in the log above it
                told = files.read_failure(place, get_verb(job))
                raise told or RetryLater(
                    f"{place} failed; read the task's log, where it says why; it will be tried again"
                ) from failure

    def _build_private_conf(self) -> dict[str, str]:
        from tidegate.config.pipeline_file import load_pipeline
        from tidegate.config.publication_file import load_publication
        from tidegate.wiring.pipeline import build_spark_conf, find_file
        from tidegate.wiring.publication import build_publication_conf

        include = find_include_folder()
        if self.verb == "publish":
            publication = load_publication(find_file(include, "publication", self.pipeline))
            return build_publication_conf(include, publication, resolve_connection)
        pipeline = load_pipeline(find_file(include, "pipeline", self.pipeline))
        return build_spark_conf(include, pipeline, resolve_connection)
