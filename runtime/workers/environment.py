"""Which of the processor's own variables its workers find: what programs need to run, and no secrets."""

from collections.abc import Iterable, Mapping

PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR", "TERM"),
    *("PYTHON*", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "NUCLIO_PYTHON_*"),
    *("JAVA_HOME", "SPARK_*", "HADOOP_CONF_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("OMP_*", "OPENBLAS_*", "MKL_*", "CUDA_*"),
)
"""Names; a `*` at the end stands for any rest. docs/operate/security.md lists them."""


def picked(environment: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """The variables of these names; each as in PASSED_ON."""
    exact = set(names)
    starts = tuple(name[:-1] for name in exact if name.endswith("*"))
    return {key: value for key, value in environment.items() if key in exact or key.startswith(starts)}
