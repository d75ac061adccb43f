"""Destinations that others have changed, or protect."""

from e2e.airflow_client import wait_until
from fault_proxy import Request, refuse

from night.failure import Failure
from night.scene import Scene


class TableRolledBack(Failure):
    """Somebody sets the table back."""

    title = "the table is rolled back"
    sentence = r"was rolled back"
    remedy = "*Undo the rollback*"
    step = "Undo the rollback"
    page = "rolled-back"

    def provoke(self, scene: Scene) -> None:
        table = scene.open_table(self.table)
        table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()

    def fix(self, scene: Scene) -> int:
        preview = scene.hand.press(self.name, "Undo the rollback")
        assert "comes back: snapshot=" in preview, preview
        return scene.hand.clicks


class TableReplaced(Failure):
    """The table is dropped, and another one with rows stands in its place when a staged batch comes to be merged."""

    title = "the table is replaced by another with rows"
    sentence = r"replaced by another of the same name"
    remedy = "none is needed: the next flush plans again, and reads the log into the table that stands there"
    step = ""
    page = "table-replaced"

    def provoke(self, scene: Scene) -> None:
        self.produce(scene, {7: 7, 8: 8})
        wait_until(lambda: self.read_stage(scene) == ["running"], "a batch that is being staged", 120, pause=0.1)
        scene.airflow.unpause(self.dag, paused=True)  # the run waits before its next task
        wait_until(lambda: self.read_stage(scene) == ["success"], "the staged batch", 120)
        scene.bench.run_spark_sql(f"DROP TABLE {self.table}")
        scene.bench.run_spark_sql(f"CREATE TABLE {self.table} (id BIGINT NOT NULL, score INT) USING iceberg")
        scene.bench.run_spark_sql(f"INSERT INTO {self.table} VALUES (1, -1), (99, 99)")
        self.rows[99] = 99
        scene.airflow.unpause(self.dag)

    def read_stage(self, scene: Scene) -> list[str]:
        """The state of `stage` in the newest run."""
        run = scene.airflow.list_runs(self.dag)[0]["dag_run_id"]
        return scene.airflow.read_task_states(self.dag, run).get("stage", [])

    def fix(self, scene: Scene) -> int:
        return 0


class BranchProtected(Failure):
    """The catalog lets nobody move the table's main branch."""

    title = "the branch is protected: the catalog refuses commits to it"
    sentence = r"403|refused"
    remedy = "give the right back; *Flush now*"
    step = "the rights there"
    page = "login-refused"
    catalog = "guarded_rest"

    def provoke(self, scene: Scene) -> None:
        scene.doors.rest.on(self.moves_main, refuse(403), times=1_000_000)
        self.produce(scene, {7: 7, 8: 8})

    def moves_main(self, request: Request) -> bool:
        """Whether a request sets the branch of this pipeline's table."""
        is_mine = f"/tables/{self.name} " in f"{request.path} "
        return is_mine and any(update.get("ref-name") == "main" for update in request.updates)

    def fix(self, scene: Scene) -> int:
        scene.doors.rest.revive()
        return scene.hand.start_flush(self.name)
