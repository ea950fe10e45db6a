"""Topics of models' outputs."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.functions.model_metrics.messages.responses import Model, ModelTopics

IRIS = Model("ns1", "iris")
names = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)
namespaces = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
prefixes = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True)


@pytest.mark.parametrize(
    ("topic", "model"),
    [
        ("seldon.ns1.model.iris.outputs", IRIS),
        ("seldon.ns1.iris.outputs", IRIS),
        ("seldon.ns1.iris.outputs.", IRIS),
        ("seldon.ns1.model.iris.outputs.", IRIS),
        ("seldon.ns1.model.Iris_v-2.outputs", Model("ns1", "Iris_v-2")),
        ("seldon.ns1.model.outputs", Model("ns1", "model")),
        ("seldon.ns1.model.iris.inputs", None),
        ("seldon.ns1.pipeline.p.outputs", None),
        ("seldon.ns1.pipeline.p.inputs", None),
        ("seldon.ns1.errors.errors", None),
        ("seldonX.ns1.iris.outputs", None),
        ("seldon.ns1.iris.outputs..", None),
        ("seldon.ns1.iris.outputs\n", None),
        ("seldon..iris.outputs", None),
        ("seldon.-ns.iris.outputs", None),
        ("seldon.NS.iris.outputs", None),
        (f"seldon.{'n' * 64}.iris.outputs", None),
        ("other.seldon.ns1.iris.outputs", None),
        ("orders", None),
    ],
)
def test_a_topic_says_its_model(topic: str, model: Model | None) -> None:
    assert ModelTopics("seldon").model_of(topic) == model


def test_a_prefix_may_have_dots_which_are_dots() -> None:
    topics = ModelTopics("my.team")
    assert topics.model_of("my.team.ns1.model.iris.outputs") == IRIS
    assert topics.model_of("my-team.ns1.model.iris.outputs") is None


@given(prefixes, namespaces, names, st.sampled_from(["", "model."]), st.sampled_from(["", "."]))
def test_both_forms_are_read_whatever_the_prefix(
    prefix: str, namespace: str, name: str, kind: str, end: str
) -> None:
    topics, topic = ModelTopics(prefix), f"{prefix}.{namespace}.{kind}{name}.outputs{end}"
    assert topics.model_of(topic) == topics.model_of(topic) == Model(namespace, name)
    assert re.fullmatch(topics.pattern, topic)
