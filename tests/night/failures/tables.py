"""Destinations that others have changed, or protect."""

from fault_proxy import Request, refuse

from night.failure import Failure
from night.scene import Scene


class TableRolledBack(Failure):
    """Somebody sets the table back."""

    title = "the table is rolled back"
    sentence = r"was rolled back"
    remedy = "*Undo the rollback*"
    page = "rolled-back"

    def provoke(self, scene: Scene) -> None:
        table = scene.open_table(self.table)
        table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()

    def fix(self, scene: Scene) -> int:
        preview = scene.hand.press(self.name, "Undo the rollback")
        assert "comes back: snapshot=" in preview, preview
        return scene.hand.clicks


class TableReplaced(Failure):
    """The table is dropped, and another one with rows stands in its place."""

    title = "the table is replaced by another with rows"
    sentence = r"replaced|position"
    remedy = "the printed `bin/tidegate rebase NAME --to earliest`"
    page = "table-replaced"

    def provoke(self, scene: Scene) -> None:
        scene.bench.spark_sql(f"DROP TABLE {self.table}")
        scene.bench.spark_sql(f"CREATE TABLE {self.table} (id BIGINT NOT NULL, score INT) USING iceberg")
        scene.bench.spark_sql(f"INSERT INTO {self.table} VALUES (1, -1), (99, 99)")
        self.rows[99] = 99

    def fix(self, scene: Scene) -> int:
        command = scene.hand.copy_command(self.name, "bin/tidegate rebase")
        scene.run_printed(command)
        return scene.hand.clicks


class BranchProtected(Failure):
    """The catalog lets nobody move the table's main branch."""

    title = "the branch is protected: the catalog refuses commits to it"
    sentence = r"403|refused"
    remedy = "give the right back; *Flush now*"
    page = "login-refused"
    catalog = "guarded_rest"

    def provoke(self, scene: Scene) -> None:
        scene.doors.rest.on(self.moves_main, refuse(403), times=1_000_000)
        self.produce(scene, {7: 7, 8: 8})

    def moves_main(self, request: Request) -> bool:
        """Whether a request sets the branch of this pipeline's table."""
        is_mine = f"/tables/{self.name} " in f"{request.path} "
        return is_mine and any(one.get("ref-name") == "main" for one in request.updates)

    def fix(self, scene: Scene) -> int:
        scene.doors.rest.revive()
        return scene.hand.start_flush(self.name)
