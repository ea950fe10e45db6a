"""Which of our own variables the programs that we start find: what they need to run, and no secrets."""

import os
from collections.abc import Iterable, Mapping

PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TERM"),
    *("PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "NUCLIO_PYTHON_*"),
    *("JAVA_HOME", "SPARK_*", "HADOOP_CONF_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("OMP_*", "OPENBLAS_*", "MKL_*", "CUDA_*"),
)
"""To workers. Names; a `*` at the end stands for any rest. docs/operate/security.md lists them."""
FOR_TRACES = ("OTEL_*",)
"""To workers as well: where their spans go, and with which headers."""
PASSED_TO_JAVA = (
    *PASSED_ON,
    *("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SSL_CERT*"),
    *("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("HADOOP_*", "YARN_CONF_DIR", "KUBECONFIG", "KUBERNETES_SERVICE_*"),  # clusters that Spark may run on
)
"""To embedded servers and their tools, where a proxy and its certificate are between them and their jars."""


def picked(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The variables of these names; each as in PASSED_ON."""
    exact = set(names)
    starts = tuple(name[:-1] for name in exact if name.endswith("*"))
    return {key: value for key, value in environment.items() if key in exact or key.startswith(starts)}


def for_java() -> dict[str, str]:
    """The environment of an embedded server, and of what prepares one."""
    return picked(os.environ, PASSED_TO_JAVA)
