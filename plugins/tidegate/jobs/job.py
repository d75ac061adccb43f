"""Any job that an engine can run."""

from tidegate.jobs.maintain_job import MaintainJob
from tidegate.jobs.merge_job import MergeJob
from tidegate.jobs.publish_job import PublishJob
from tidegate.jobs.stage_job import StageJob

Job = StageJob | MergeJob | MaintainJob | PublishJob
