"""Predictions of a response."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.functions.model_metrics.messages.predictions import class_of, number_of, predictions_of


def output(data: Any, shape: list[int], **more: Any) -> dict[str, Any]:
    return {"outputs": [{"name": "predict", "datatype": "FP32", "shape": shape, "data": data}], **more}


@pytest.mark.parametrize(
    ("document", "predictions"),
    [
        (output([2], [1]), [2]),
        (output([2], []), [2]),
        (output([2], [1, 1]), [2]),
        (output([0, 2, 1], [3]), [0, 2, 1]),
        (output([0, 2, 1], [3, 1]), [0, 2, 1]),
        (output(["setosa", "other"], [2]), ["setosa", "other"]),
        (output([0.1, 0.7, 0.2], [1, 3]), ["1"]),
        (output([0.1, 0.9, 0.8, 0.2], [2, 2]), ["1", "0"]),
        (output([[0.1, 0.9], [0.8, 0.2]], [2, 2]), ["1", "0"]),
        (output([0.5, 0.5], [1, 2]), ["0"]),
        (output([], [0]), []),
        (output([1, 2, 3], [2]), []),
        (output([1, "a"], [1, 2]), []),
        (output(7, [1]), []),
        (output([1], ["x"]), []),  # type: ignore[list-item]  # as a producer may write it
        ({"outputs": []}, []),
        ({"outputs": [{"name": "o"}]}, []),
        ({"outputs": {}}, []),
        ({}, []),
        (None, []),
    ],
)
def test_each_request_of_a_batch_has_one_prediction(document: Any, predictions: list[Any]) -> None:
    assert predictions_of(document) == predictions


def test_the_first_output_counts() -> None:
    document = output([1], [1])
    document["outputs"].append({"name": "probabilities", "shape": [1, 2], "data": [0.9, 0.1]})
    assert predictions_of(document) == [1]


@given(st.recursive(st.none() | st.integers() | st.text(max_size=2), st.lists), st.lists(st.integers(-1, 5)))
def test_nothing_makes_it_raise(data: Any, shape: list[int]) -> None:
    for prediction in predictions_of(output(data, shape)):
        assert class_of(prediction) is None or isinstance(class_of(prediction), str)


@pytest.mark.parametrize(
    ("prediction", "label", "number"),
    [
        (2, "2", 2.0),
        (2.0, "2", 2.0),
        (0.5, "0.5", 0.5),
        ("setosa", "setosa", None),
        (True, "true", None),
        (None, None, None),
        ("NaN", "NaN", None),
        ({"base64": "/w=="}, None, None),
    ],
)
def test_a_prediction_is_a_class_and_maybe_a_number(
    prediction: Any, label: str | None, number: float | None
) -> None:
    assert (class_of(prediction), number_of(prediction)) == (label, number)
