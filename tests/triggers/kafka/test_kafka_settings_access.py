"""How a Kafka trigger gets at its brokers: TLS, SASL, secrets in files, and what Spark is told of it."""

from pathlib import Path

import pytest
from kafka_settings import KEY, PEM, RANGES, loaded, notices_of, problems_with

from headrace.triggers.kafka.settings.connection import unflatten_pem


def test_spark_reads_the_topics_with_the_triggers_own_security(tmp_path: Path) -> None:
    sasl = {"enable": True, "user": "me", "password": 'a"b\\c', "mechanism": "SCRAM-SHA-512"}
    own = loaded(tmp_path, RANGES, {"sasl": sasl, "tls": {"enable": True}}, batch={"mode": "enable"})
    assert own.spark_source_options == {
        "kafka.bootstrap.servers": ",".join(own.brokers),
        "kafka.isolation.level": "read_uncommitted",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        r""" username="me" password="a\"b\\c";""",
    }


def test_the_triggers_url_stands_in_for_brokers_and_brokers_win(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"brokers": []}, url="u:9092").brokers == ("u:9092",)
    assert loaded(tmp_path, url="u:9092").brokers == ("b:9092",)


def test_a_ca_certificate_turns_tls_on(tmp_path: Path) -> None:
    assert loaded(tmp_path, {"caCert": PEM}).uses_tls
    assert not loaded(tmp_path).uses_tls


@pytest.mark.parametrize("flat", [PEM.replace("\n", "@"), PEM.replace("\n", " "), PEM.strip(), PEM])
def test_flattened_certificates_get_their_lines_back(flat: str) -> None:
    assert unflatten_pem(flat) == PEM
    assert unflatten_pem(flat + flat) == PEM + PEM


def test_an_encrypted_keys_header_lines_stay_apart() -> None:
    text = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,AA\n\nAAAA\n"
        "-----END RSA PRIVATE KEY-----\n"
    )
    assert unflatten_pem(text.replace("\n", "@")) == text


def test_secrets_may_be_files_in_the_secret_path(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "ca.crt").write_text(PEM.replace("\n", "@"))
    (folder / "password").write_text("hunter2\n")
    own = loaded(
        tmp_path,
        {"secretPath": str(folder), "caCert": "ca.crt", "sasl": {"enable": True, "user": "u"}},
        annotations={"nuclio.io/kafka-sasl-password": "password"},
    )
    assert (own.ca_cert, own.sasl.password) == (PEM, "hunter2")
    assert loaded(tmp_path, {"secretPath": "secrets", "caCert": "ca.crt"}).secret_path == str(folder)
    assert "hunter2" not in repr(own)


def test_a_secret_never_leads_out_of_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (tmp_path / "outside").write_text("content")
    for password in ("../outside", str(tmp_path / "outside"), "p" * 5000, "."):
        own = loaded(tmp_path, {"secretPath": "secrets", "sasl": {"password": password}})
        assert own.sasl.password == password


def test_a_secret_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(b"\xff\xfe")
    text = problems_with(tmp_path, {"secretPath": ".", "caCert": "ca.crt"})
    assert "caCert: its file is not UTF-8 text" in text


@pytest.mark.parametrize("folder", ["missing", "too-long-a-name" * 20])
def test_a_secret_path_without_a_folder_is_noticed(tmp_path: Path, folder: str) -> None:
    assert "secretPath: names no folder here" in notices_of(tmp_path, {"secretPath": folder})


@pytest.mark.parametrize("attribute", ["caCert", "accessCertificate"])
def test_a_certificate_may_be_a_file_by_its_full_path(tmp_path: Path, attribute: str) -> None:
    file = tmp_path / "ca.crt"
    file.write_text(PEM)
    own = loaded(tmp_path, {"caCert": PEM, "accessKey": KEY, "accessCertificate": PEM, attribute: str(file)})
    assert (own.ca_cert, own.access_certificate) == (PEM, PEM)


def test_a_certificate_whose_file_is_not_there_is_said(tmp_path: Path) -> None:
    text = problems_with(tmp_path, annotations={"nuclio.io/kafka-ca-cert": f"{tmp_path}/missing.crt"})
    assert "is neither PEM text (-----BEGIN ...-----) nor a file, by full path or in secretPath" in text


def test_a_password_that_looks_like_a_path_is_a_password(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("other")
    own = loaded(tmp_path, {"sasl": {"enable": True, "user": "u", "password": str(file)}})
    assert own.sasl.password == str(file)


def test_a_handshake_that_is_switched_off_is_sent_all_the_same(tmp_path: Path) -> None:
    notices = notices_of(tmp_path, {"sasl": {"handshake": False}})
    assert "sasl.handshake: has no effect here: the Kafka client always sends its handshake" in notices
    assert loaded(tmp_path, {"sasl": {"handshake": False}}).sasl.handshake
