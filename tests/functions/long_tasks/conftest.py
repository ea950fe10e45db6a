"""Fixtures for functions/long_tasks."""

from pathlib import Path

import pytest
from broker import Broker
from long_task_scene import Scene


@pytest.fixture
def scene(broker: Broker, tmp_path: Path) -> Scene:
    """Topics of this test's own."""
    return Scene(broker, tmp_path / "scene")
