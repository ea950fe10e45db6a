"""Full examples: what a person copies from says every setting, and means the defaults."""

from operator import attrgetter

import pytest
import yaml
from command import one_line, run
from function_files import KINDS, SPECS

from headrace.runtime.config.example import kind_example
from headrace.runtime.config.function_reader import load_function
from headrace.runtime.config.spark import SparkFields
from headrace.runtime.config.trigger_fields import TriggerFields
from headrace.runtime.config.trigger_kinds import TriggerKind, trigger_fields
from headrace.runtime.settings.declare import Settings, setting, settings_of
from headrace.runtime.settings.types import Count, Text, Texts
from headrace.triggers.kafka.settings.model import KafkaSettings

FULL, SPARK = (SPECS / f"{name}-full.yaml" for name in ("kafka", "spark"))
ODD = ("yes", "1.2", "a: b", "# x", "[a]", "a, b", "a:1", "10s", "", "it's", 'say "no"', "null", "é: ü")


def kind_with(model: type[Settings]) -> TriggerKind:
    return TriggerKind(kind="tick", Settings=model, trigger="none:None")


@pytest.mark.parametrize("model", [KafkaSettings, trigger_fields(KINDS.values())])
def test_the_comment_above_a_setting_is_its_effect(model: type[Settings]) -> None:
    text = " ".join(line.strip().removeprefix("# ") for line in FULL.read_text().splitlines())
    for declared in settings_of(model):
        found = declared.setting
        if found.built and not found.no_effect and found.in_examples:
            annotations = "".join(f"[{key}] " for key in found.annotation_keys()[:1])
            assert f" {found.effect} {annotations}{found.key}:" in text


def test_the_full_example_means_the_defaults() -> None:
    (trigger,) = load_function(FULL, KINDS).triggers
    for declared in settings_of(TriggerFields):
        if declared.name not in ("kind", "attributes"):
            default = declared.field.get_default(call_default_factory=True)
            assert attrgetter(declared.name)(trigger.fields) == default, declared.keys


def test_the_spark_example_says_all_of_it_and_means_the_defaults() -> None:
    said = yaml.safe_load(SPARK.read_text())["spec"]["spark"]
    assert list(said) == [declared.setting.key for declared in settings_of(SparkFields)]
    spark = load_function(SPARK, KINDS).spark
    assert spark is not None
    assert (spark.remote, spark.master, spark.conf, spark.packages) == ("", "local[*]", {}, ())


def test_any_text_is_written_so_that_it_is_read_again() -> None:
    class Odd(Settings):
        text: Text = setting("text", example="yes", effect="Anything.")
        texts: Texts = setting("texts", ODD, effect="Any.")
        count: Count = setting("count", 5, effect="So many.")

    read = yaml.safe_load(kind_example(kind_with(Odd)))["spec"]["triggers"]["orders"]["attributes"]
    assert read == {"text": "yes", "texts": list(ODD), "count": 5}


def test_a_kind_says_which_of_its_settings_have_no_default() -> None:
    class Whole(Settings):
        every: Count = setting("every", 5, effect="How often.")

    class One(Settings):
        every: Count = setting("every", example=5, effect="How often.")

    assert "no default" not in kind_example(kind_with(Whole))
    assert "every has no default." in kind_example(kind_with(One))


def test_a_required_setting_needs_an_example() -> None:
    class Every(Settings):
        every: Count = setting("every", effect="How often.")

    with pytest.raises(AssertionError, match="every has no default: declare an example"):
        kind_example(kind_with(Every))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--example", "kafka-clutser"), "'kafka-clutser' is no trigger kind; the nearest known kind is"),
        (("--example", "nats"), "'nats' is known, but not built"),
        (("--spark",), "--spark goes with --example KIND"),
        (("--markdown", "--metrics"), "give one of them"),
    ],
)
def test_what_schema_has_no_answer_to_is_one_line(arguments: tuple[str, ...], says: str) -> None:
    assert says in one_line(run("schema", *arguments), 2)
