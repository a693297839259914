"""Links over TLS: who has a certificate is let in, and heard under its own name only. As OPERATIONS says it."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.pages import ROOT
from tests.servers import free_port
from tests.sizes import PATIENCE

from penstock.network.host import BrokerHost
from penstock.network.links.link import NetworkError
from penstock.network.network_client import NetworkClient
from penstock.server.broker_file import BrokerFile, parse_broker

_SHORT = 2.0  # seconds, after which nobody answers
_NAMES = "subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth,clientAuth\n"
_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a certificate of an authority, and one by it for each name."""
    found = tmp_path_factory.mktemp("certificates")
    (found / "names").write_text(_NAMES)

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=found)

    openssl("req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    for name in ("south", "north", "shop", "thief"):
        asked = ("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("req", *_KEY, *asked)
        signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "names")
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return found


def described(folder: Path, port: int) -> BrokerFile:
    """The broker of the page."""
    page = (ROOT / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")
    (block,) = [one for one in page.split("```yaml\n")[1:] if "access_control" in one]
    text = block.partition("```")[0].replace("7447", str(port))
    for name in ("ca.pem", "south.pem", "south.key"):
        text = text.replace(name, str(folder / name))
    schema = {"schema": {"n": "bigint"}}
    return parse_broker({"name": "south", "rank": 1, **schema, **yaml.safe_load(text)})


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[tuple[BrokerHost, str]]:
    """It runs, and where it listens."""
    found = described(folder, free_port())
    host = BrokerHost(found.settings(), folder / "broker", found.open_link())
    yield host, found.listen[0]
    host.close()


def secured(folder: Path, name: str | None) -> dict[str, Any]:
    """Zenoh's configuration of somebody who has this certificate."""
    tls: dict[str, Any] = {"root_ca_certificate": str(folder / "ca.pem")}
    if name is not None:
        for side in ("listen", "connect"):
            tls[f"{side}_certificate"] = str(folder / f"{name}.pem")
            tls[f"{side}_private_key"] = str(folder / f"{name}.key")
        tls["enable_mtls"] = True
    return {"transport": {"link": {"tls": tls}}}


def joined(folder: Path, endpoint: str, name: str, certificate: str | None) -> NetworkClient:
    config = secured(folder, certificate)
    return NetworkClient.connect(endpoint, broker="south", name=name, config=config)


def test_a_client_with_its_certificate_is_served(folder: Path, broker: tuple[BrokerHost, str]):
    with joined(folder, broker[1], "shop", "shop") as shop:
        shop.advertise(1, "TRUE", PATIENCE)
        shop.subscribe(1, "n > 0", PATIENCE)
        shop.publish([{"n": 5}], timeout=PATIENCE)
        mail = next(shop.read())
        assert mail.events.to_pylist() == [{"n": 5}]


def test_a_client_without_a_certificate_is_not_let_in(folder: Path, broker: tuple[BrokerHost, str]):
    with pytest.raises(NetworkError, match="no broker answers"):
        joined(folder, broker[1], "shop", None)


@pytest.mark.parametrize(("name", "certificate"), [("boss", "shop"), ("shop", "thief")])
def test_nobody_is_heard_under_the_name_of_another(
    folder: Path, broker: tuple[BrokerHost, str], name: str, certificate: str
):
    """Nor does the broker learn what they wish."""
    with (
        joined(folder, broker[1], name, certificate) as stranger,
        pytest.raises(NetworkError, match="hasn't answered"),
    ):
        stranger.subscribe(99, "TRUE", _SHORT)
    host, _ = broker
    assert 99 not in [text.own for text in host._desk.texts]


def test_a_broker_with_its_certificate_is_a_neighbour(folder: Path, broker: tuple[BrokerHost, str]):
    """Events cross the link."""
    north = parse_broker(
        {
            "name": "north",
            "rank": 2,
            "schema": {"n": "bigint"},
            "listen": [f"tls/localhost:{free_port()}"],
            "neighbours": [{"name": "south", "rank": 1, "at": broker[1]}],
            "zenoh": secured(folder, "north"),
        }
    )
    host = BrokerHost(north.settings(), folder / "north", north.open_link())
    try:
        with (
            joined(folder, broker[1], "shop", "shop") as shop,
            NetworkClient(host.join_here, "north", "reader") as reader,
        ):
            reader.subscribe(1, "n > 0", PATIENCE)
            shop.advertise(1, "TRUE", PATIENCE)
            shop.publish([{"n": 7}], timeout=PATIENCE)
            assert next(reader.read()).events.to_pylist() == [{"n": 7}]
    finally:
        host.close()
