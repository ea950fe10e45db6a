import handler
import pyarrow.parquet
import pytest

from headrace.testing import run_handler, spark_server


@pytest.fixture(scope="session")
def spark():
    with spark_server(conf={"spark.driver.memory": "700m"}) as server:
        yield server


def test_words_are_counted(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(handler, "FOLDER", str(tmp_path))
    run = run_handler(handler.handler, [b"one two", b"three"], is_batch=True, spark=spark)
    assert run.failures == []
    assert pyarrow.parquet.read_table(tmp_path)["words"].to_pylist() == [2, 1]
