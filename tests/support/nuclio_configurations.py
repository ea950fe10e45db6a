"""Function files as they are found where Nuclio is used, each with what becomes of it here.

Written for this test in the shape of what is out there: the docs, exports of nuctl and the dashboard, what
mlrun generates, and what people write.
"""

import base64
import textwrap
from dataclasses import dataclass

HANDLER = "def handler(context, event):\n    print(event.body)\n"
CODE = base64.b64encode(HANDLER.encode()).decode()
NO_IMAGE = "has no effect here: no image is built; install what the handler needs beside Headrace"
IN_CODE = NO_IMAGE.replace("here", "here, but for functionSourceCode")
KUBERNETES = "has no effect here: a setting of the Kubernetes deployment, not of the process"
SCHEDULED = "has no effect here: for Kubernetes, which schedules by it; the process doesn't"
PLATFORM = "has no effect here: Nuclio's platform uses it, the function itself doesn't"
LEFT_OUT = "is left out: only a cluster can look it up; set it where Headrace runs"
MLRUNS_ACKS = (
    "is mlrun's, whose acks mean all records up to their own: explicitAckSemantics is cumulative where it"
    " isn't set"
)
MLRUN = "has no effect here: mlrun's own Kafka client reads it, a trigger doesn't"
PYTHON = "the handler runs on Python 3.11, not"


@dataclass(frozen=True)
class Configuration:
    """One file, and its verdict: valid with these notices, or refused with these lines (their ends)."""

    name: str
    text: str
    notices: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


def accepted(name: str, text: str, *notices: str, arguments: tuple[str, ...] = ()) -> Configuration:
    return Configuration(name, textwrap.dedent(text), notices=notices, arguments=arguments)


def refused(name: str, text: str, *lines: str) -> Configuration:
    return Configuration(name, textwrap.dedent(text), refused=lines)


def kafka(more: str = "", attributes: str = "", spec: str = "", metadata: str = "name: f") -> str:
    """A file with one Kafka trigger: the parts that a case is about, each as YAML in flow style."""
    own = "topics: [orders], brokers: ['kafka:9092'], consumerGroup: g"
    return (
        f"metadata: {{{metadata}}}\nspec:\n  handler: main:handler\n"
        + (f"  {spec}\n" if spec else "")
        + f"  triggers:\n    t: {{kind: kafka-cluster{more}, attributes: {{{own}{attributes}}}}}\n"
    )


CORPUS = (
    # As the docs have them.
    accepted(
        "docs: the smallest",
        """
        apiVersion: nuclio.io/v1
        kind: NuclioFunction
        metadata:
          name: reader
        spec:
          runtime: python:3.11
          handler: main:handler
          triggers:
            orders:
              kind: kafka-cluster
              attributes:
                topics: [orders]
                brokers: [kafka:9092]
                consumerGroup: readers
        """,
    ),
    accepted("docs: sign-in and handshake", kafka(attributes=(
        ", initialOffset: earliest, sasl: {enable: true, user: u, password: p, handshake: true,"
        " mechanism: SCRAM-SHA-256}, tls: {enable: true, insecureSkipVerify: true}"
    ))),
    refused(
        "docs: minVersion",
        kafka(attributes=", tls: {enable: true, minVersion: '1.2'}"),
        "tls.minVersion: unknown key; the nearest known key is minimumVersion",
    ),
    refused(
        "docs: noBaseImagePull",
        kafka(spec="build: {noBaseImagePull: true}"),
        "build.noBaseImagePull: unknown key; the nearest known key is noBaseImagesPull",
    ),
    refused(
        "docs: workerTerminationTimeout below attributes",
        kafka(attributes=", workerTerminationTimeout: 30s"),
        "workerTerminationTimeout: unknown key here; it is a field of the trigger, beside attributes",
    ),
    accepted(
        "docs: explicit acks by annotation",
        kafka(", explicitAckMode: enable", metadata=(
            "name: f, annotations: {nuclio.io/kafka-worker-allocation-mode: static}"
        )),
    ),
    accepted("docs: explicitAckMode enabled", kafka(
        ", explicitAckMode: enabled", ", workerAllocationMode: static"
    )),
    refused(
        "docs: explicit acks in the pool",
        kafka(", numWorkers: 4, explicitAckMode: explicitOnly"),
        "workerAllocationMode: must be static with explicitAckMode explicitOnly",
    ),
    accepted("docs: rebalances that wait", kafka(
        attributes=", rebalanceTimeout: 5m, maxWaitHandlerDuringRebalance: 4m, rebalanceRetryMax: 10"
    )),
    accepted(
        "docs: the newer timeouts",
        kafka(attributes=", metadataTimeout: 30s, netDialTimeout: 5s"),
        "metadataTimeout: has no effect here: the client asks for metadata until it gets some",
        "netDialTimeout: has no effect here: the client waits for a connection as for any answer,"
        " rebalanceTimeout and 5s at least",
    ),
    accepted(
        "docs: the newer timeouts by annotation",
        kafka(metadata=(
            "name: f, annotations: {nuclio.io/kafka-admin-retry-max: 5,"
            " nuclio.io/kafka-net-keep-alive-interval: 90s}"
        )),
        "kafka-admin-retry-max: has no effect here: no topic is made or changed for a trigger",
        "kafka-net-keep-alive-interval: has no effect here: heartbeats and fetches keep connections alive",
    ),
    accepted("docs: tokens", kafka(attributes=(
        ", sasl: {enable: true, mechanism: OAUTHBEARER, oauth: {clientID: a, clientSecret: b,"
        " tokenURL: 'https://idp/token', scopes: [kafka]}}"
    ))),
    accepted("docs: the broker as url", """
        metadata: {name: f}
        spec:
          handler: main:handler
          triggers:
            t: {kind: kafka, url: 'kafka:9092', maxWorkers: 4, attributes: {topics: [a], consumerGroup: g}}
        """),
    accepted("docs: an older kind of trigger's fields", kafka(
        ", class: sync, paths: [], numPartitions: 4"
    ), "t.class: has no effect here: a field of other trigger kinds or of older Nuclio versions",
        "t.numPartitions: has no effect here: a field of other trigger kinds or of older Nuclio versions"),
    accepted("docs: partitions, and how many there are", kafka(attributes=", partitions: 4"),
        "partitions: has no effect here: a number is no list of partitions, so all are read;"
        " write [4] for that one alone"),
    accepted("docs: a build with commands", kafka(spec=(
        "build: {baseImage: 'python:3.9', commands: [pip install requests]}"
    )), f"spec.build: {NO_IMAGE}"),
    accepted("docs: several replicas on a cluster", kafka(spec="minReplicas: 1\n  maxReplicas: 4"),
        f"spec.minReplicas: {KUBERNETES}", f"spec.maxReplicas: {KUBERNETES}"),
    accepted("docs: a web trigger beside it",
        kafka() + "    web: {kind: http, maxWorkers: 4, attributes: {port: 8080}}\n"),
    accepted(
        "docs: the same, left out",
        kafka() + "    web: {kind: http, maxWorkers: 4, attributes: {port: 8080}}\n",
        "triggers.web.kind: the trigger is left out: only kafka-cluster is asked for",
        arguments=("--only-kafka",),
    ),
    refused("docs: a handler in Go", kafka(spec="runtime: golang"),
        "spec.runtime: 'golang' is not built in; Headrace runs Python 3 only, such as python:3.11"),

    # Exported by nuctl and the dashboard.
    accepted(
        "export: nuctl, with status",
        f"""
        apiVersion: nuclio.io/v1
        kind: NuclioFunction
        metadata:
          name: reader
          namespace: nuclio
          labels:
            nuclio.io/project-name: default
          annotations:
            nuclio.io/generated-by: nuctl
            skip-build: true
            skip-deploy: true
          resourceVersion: 1234
        spec:
          description: ''
          handler: main:handler
          runtime: python:3.11
          env: []
          resources: {{requests: {{cpu: 25m, memory: 1Mi}}}}
          image: registry:5000/reader:latest
          imageHash: 1656343
          replicas: 1
          triggers:
            orders:
              class: ''
              kind: kafka-cluster
              name: orders
              maxWorkers: 1
              numWorkers: 2
              attributes:
                brokers: [kafka:9092]
                consumerGroup: readers
                initialOffset: latest
                topics: [orders]
          version: -1
          alias: latest
          build: {{functionSourceCode: {CODE}, codeEntryType: sourceCode, timestamp: 1656343, offline: false}}
          platform: {{}}
          loggerSinks: [{{level: debug}}]
          readinessTimeoutSeconds: 120
          securityContext: {{}}
          eventTimeout: ''
        status:
          state: ready
          httpPort: 32001
        """,
        "metadata.resourceVersion: has no effect here: Kubernetes writes it, nobody sets it",
        f"spec.resources.requests.memory: {SCHEDULED}",
        f"spec.resources.requests.cpu: {SCHEDULED}",
        f"spec.image: {NO_IMAGE}",
        f"spec.imageHash: {NO_IMAGE}",
        f"spec.replicas: {KUBERNETES}",
        f"spec.alias: {PLATFORM}",
        f"spec.readinessTimeoutSeconds: {KUBERNETES}",
        f"status: {PLATFORM}",
        f"spec.build: {IN_CODE}",
    ),
    accepted("export: v1beta1", "apiVersion: nuclio.io/v1beta1\nkind: Function\n" + kafka()),
    accepted("export: without a version", kafka()),
    accepted("export: meta", kafka().replace("metadata", "meta"),
        "metadata: is written as meta, its old name"),
    accepted("export: the dashboard's variables", kafka(spec=(
        "env: [{name: A, type: value, value: 5}, {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}]"
    )), "env[0].type: has no effect here: Nuclio's dashboard writes it", f"env[1].valueFrom: {LEFT_OUT}"),
    accepted("export: everything empty", kafka(spec=(
        "env:\n  build:\n  resources:\n  platform: {}\n  volumes: []\n  loggerSinks:\n  eventTimeout: ''"
    ), metadata="name: f, labels: {}, annotations: ")),
    accepted("export: nothing where values are", kafka(", explicitAckMode: , password: "),
        "explicitAckMode: nothing is written; the default counts",
        "password: nothing is written; the default counts"),
    accepted("export: an old deployment", kafka(spec="dealerURI: ''\n  targetCpu: 75\n  httpPort: 30021"),
        f"spec.targetCpu: {KUBERNETES}", f"spec.httpPort: {KUBERNETES}"),
    accepted("export: numbers in annotations", kafka(metadata=(
        "name: f, annotations: {nuclio.io/kafka-fetch-min: 10, nuclio.io/kafka-tls-enabled: false}"
    ))),

    # Generated by mlrun.
    accepted(
        "mlrun: a function with its code",
        f"""
        apiVersion: nuclio.io/v1
        kind: Function
        metadata:
          name: project-reader
          labels: {{mlrun/class: nuclio}}
          annotations: {{nuclio.io/generated_by: function generated from main.py}}
        spec:
          runtime: python:3.9
          handler: reader-1:handler
          env:
          - {{name: MLRUN_DEFAULT_PROJECT, value: project}}
          - {{name: MLRUN_LOG_LEVEL, value: 10}}
          minReplicas: 1
          maxReplicas: 4
          build:
            commands: []
            noBaseImagesPull: true
            functionSourceCode: {CODE}
          triggers:
            kafka:
              kind: kafka-cluster
              maxWorkers: 1
              workerTerminationTimeout: 10s
              explicitAckMode: explicitOnly
              attributes:
                topics: [orders]
                brokers: [kafka:9092]
                consumerGroup: serving
                initialOffset: earliest
                sessionTimeout: 10s
                heartbeatInterval: 3s
                workerAllocationMode: static
                worker_allocation_mode: static
                fetchDefault: 1048576
                partitions:
        """,
        f"spec: {MLRUNS_ACKS}",
        f"spec.minReplicas: {KUBERNETES}",
        f"spec.maxReplicas: {KUBERNETES}",
        f"spec.runtime: {PYTHON} 3.9",
        f"spec.build: {IN_CODE}",
        f"worker_allocation_mode: {MLRUN}: its settings have other names, in camelCase",
    ),
    accepted("mlrun: the client's own keys", kafka(attributes=(
        ", security_protocol: SASL_SSL, sasl_plain_username: u, new_topic: true"
    )), *(f"{key}: {MLRUN}: its settings have other names, in camelCase"
          for key in ("security_protocol", "sasl_plain_username", "new_topic"))),
    accepted("mlrun: sasl of its parameters", kafka(attributes=(
        ", sasl: {enable: true, user: u, password: p, mechanism: PLAIN, handshake: true}"
    ))),
    accepted("mlrun: a volume and an account", kafka(spec=(
        "volumes: [{volume: {name: v}, volumeMount: {name: v, mountPath: /v}}]\n  serviceAccount: mlrun"
    )), f"spec.volumes: {KUBERNETES}", f"spec.serviceAccount: {KUBERNETES}"),
    refused(
        "mlrun: code that isn't encoded",
        kafka(spec="build: {functionSourceCode: 'def handler(context, event): ...'}"),
        "functionSourceCode: the value (not shown) is no text in base64;"
        " expected what `base64 main.py` prints",
    ),
    refused(
        "mlrun: a stream of v3io",
        kafka() + "    v: {kind: v3ioStream, url: 'http://v3io', attributes: {consumerGroup: g}}\n",
        "triggers.v.attributes.streamPath: needs containerName and streamPath beside it: the three go"
        " together, or all are in the url",
    ),
    accepted(
        "mlrun: a whole stream of v3io",
        kafka()
        + "    v: {kind: v3ioStream, name: v, url: 'http://v3io:8081', maxWorkers: 4, password: '${V3IO:-}',"
        " attributes: {containerName: projects, streamPath: /p/s, consumerGroup: g, seekTo: latest,"
        " pollingIntervalMs: 500, readBatchSize: 64, workerAllocationMode: static}}\n",
    ),

    # Made by hand.
    accepted("hand: an image's tag", kafka(spec="runtime: python:3.8-alpine"),
        f"spec.runtime: {PYTHON} 3.8-alpine"),
    accepted("hand: variables as they come", kafka(spec=(
        "env: [{name: PORT, value: 8080}, {name: DEBUG, value: false}, {name: RATE, value: 1.5}]"
    ))),
    accepted("hand: a disabled web trigger", kafka() + "    web: {kind: http, disabled: true}\n",
        "triggers.web.disabled: the trigger is disabled and left out"),
    accepted("hand: a default", kafka(attributes=", sasl: {password: '${NOBODY_SET_IT:-none}'}"),
        "sasl.enable: a user or a password is given, and false keeps them unused"),
    refused("hand: a variable that isn't set", kafka(attributes=", sasl: {password: '${NOBODY_SET_IT}'}"),
        "sasl.password: the environment has no variable NOBODY_SET_IT: set it, or write"
        " ${NOBODY_SET_IT:-default}, or $${NOBODY_SET_IT} for the text as it stands"),
    accepted("hand: no brokers", kafka().replace("brokers: ['kafka:9092'], ", ""),
        arguments=("--brokers", "kafka:9092")),
    refused("hand: no brokers anywhere", kafka().replace("brokers: ['kafka:9092'], ", ""),
        "brokers: is required: a list of at least one host:port, or the trigger's url, --brokers,"
        " --embedded-kafka or HEADRACE_BROKERS"),
    refused("hand: topics as one text", kafka().replace("topics: [orders]", "topics: orders"),
        "topics: 'orders' is not a list of strings; expected lines such as `- one`"),
    refused("hand: a number of seconds", kafka(attributes=", sessionTimeout: 10"),
        "sessionTimeout: 10 is not a duration; expected something like 10s or 1m30s"),
    accepted("hand: a handler's file", kafka().replace("main:handler", "main.py:handler")),
    accepted("hand: a proxy's sign-in", kafka(attributes=(
        ", sasl: {enable: true, user: u, password: p, handshake: false}"
    )), "sasl.handshake: has no effect here: the Kafka client always sends its handshake before it signs in"),
    accepted("hand: an older variable of the client", kafka(attributes=", version: 2.8.0, logLevel: 5"),
        "version: has no effect here: the client finds out what the broker speaks",
        "logLevel: has no effect here: the command line sets the log's level"),
)  # fmt: skip
