"""Times through Spark: the zones of the processes that take those without one."""

from mutant import Mutant

_SETTINGS = "tests/runtime/config/test_spark_settings.py"

MUTANTS = (
    Mutant(
        "local-workers",
        "times",
        "workers with Spark are in the zone of the machine",
        "runtime/config/function.py",
        '({"TZ": "UTC"} if self.spark else {})',
        "({})",
        f"{_SETTINGS}::test_workers_with_spark_are_in_utc_unless_the_function_says_otherwise",
    ),
    Mutant(
        "deaf-to-functions",
        "times",
        "workers with Spark are in UTC where the function names another zone",
        "runtime/config/function.py",
        "            **self.env,\n",
        '            **self.env,\n            "TZ": "UTC",\n',
        f"{_SETTINGS}::test_workers_with_spark_are_in_utc_unless_the_function_says_otherwise",
    ),
    Mutant(
        "always-utc",
        "times",
        "UDFs are in UTC where the function names another zone",
        "runtime/embedded/spark/command.py",
        'if "TZ" not in self.shared.env:',
        "if self.shared:",
        f"{_SETTINGS}::test_python_of_an_embedded_spark_is_in_utc_unless_a_function_says_otherwise",
    ),
)
