"""stage and merge on clusters without a Connect server: the same steps, with spark-submit as their Spark."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException
from tidegate.errors import GiveUp, RetryLater
from tidegate.lineage.dataset import TaskLineage
from tidegate.ports.session import Job
from tidegate.settings import find_include_folder

from tidegate_airflow import tasks
from tidegate_airflow.connections import resolve_connection
from tidegate_airflow.errors import read_form_words
from tidegate_airflow.operators.action import FORM_STEPS
from tidegate_airflow.operators.job import PUBLISH_WORDS, maintain_tables, run_slice, trace_job
from tidegate_airflow.operators.lineage import ReportsLineage
from tidegate_airflow.operators.step import STEPS, JobLink


class SubmitOperator(ReportsLineage, SparkSubmitOperator):
    """A step whose Spark job is submitted.

    `given`: the plan for stage, a table's queue for merge, a table's name for maintain, the result of clean_up for
    compact, the form's words for publish. The operator is the step's engine: each job of the step is one spark-submit.
    """

    template_fields = (*SparkSubmitOperator.template_fields, "given", "backfill")
    operator_extra_links = (JobLink(),)

    def __init__(self, *, verb: str, pipeline: str, given: Any, backfill: Any = None, **kwargs: Any) -> None:
        # a step may run several jobs: Airflow would take the second one for the first, which its task's state names
        super().__init__(**{**kwargs, "durable": False})
        self.verb = verb
        self.pipeline = pipeline
        self.given = given
        self.backfill = backfill

    def execute(self, context: Context) -> Any:
        return self.resume_step(context, {})

    def resume_step(self, context: Context, memory: Mapping[str, Any], event: Any = None) -> Any:
        """Run the step, or resume one that waited for a job of BigQuery's: `memory` is what it kept then."""
        self._context = context
        if self.verb in STEPS:
            return STEPS[self.verb](context, self.pipeline, self.given, memory, self)
        if self.verb == "compact":
            return tasks.run_compact(self.pipeline, self.given, self)
        if self.verb == "maintain":
            return maintain_tables(self.pipeline, self.given, self)
        if self.verb in FORM_STEPS:
            return FORM_STEPS[self.verb](context, self.pipeline, self)
        if self.verb == "backfill":
            return run_slice(context, self.pipeline, self.backfill, self.given, self)
        if self.verb == "publish":
            read_form_words(context, PUBLISH_WORDS)
            return tasks.run_publish(self.pipeline, {"resynchronise": self.given["resynchronise"] == "True"}, self)
        raise GiveUp(f"verb={self.verb}: nothing is submitted for it")

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
                super().execute(self._context)
            except AirflowException as failure:
                place = f"pipeline={job.pipeline} batch={job.batch}: spark-submit of {self.verb}"
                # Airflow's own text is the whole command line; what happened stands in the log above it
                told = files.read_failure(place, get_verb(job))
                raise told or RetryLater(
                    f"{place} failed; read the task's log, where it says why; it will be tried again"
                ) from failure

    def trace_lineage(self) -> TaskLineage:
        return trace_job(self.verb, self.pipeline, self.given, self.backfill)

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
