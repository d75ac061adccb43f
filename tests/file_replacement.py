"""One Iceberg snapshot that takes files away and adds rows, as Spark's overwrite makes it; PyIceberg's makes two."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pyarrow as pa
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.utils.concurrent import ExecutorFactory


def replace_files(table: Table, dropped: Iterable[DataFile], rows: pa.Table, summary: Mapping[str, str] = {}) -> None:
    # PyIceberg 0.12 lets several threads ask one evaluator which manifests of a partitioned table hold the files: each
    # writes into it what it asks about, so now and then a file that is there is called missing
    with ThreadPoolExecutor(1) as thread, patch.object(ExecutorFactory, "get_or_create", return_value=thread):
        transaction = table.transaction()
        with transaction.update_snapshot(snapshot_properties=dict(summary)).overwrite() as overwrite:
            for file in dropped:
                overwrite.delete_data_file(file)
            for file in _dataframe_to_data_files(transaction.table_metadata, rows, table.io):
                overwrite.append_data_file(file)
        transaction.commit_transaction()
