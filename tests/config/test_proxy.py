"""Which proxy a request goes through, for every room of the house."""

import pytest

from nanobot.config.proxy import Proxies, UnusableProxy
from tests.tables import table


@table(
    "host rule without",
    ("a.example.org", "example.org", True),
    ("a.example.org", ".example.org", True),
    ("notexample.org", "example.org", False),
    ("localhost", "127.0.0.1, localhost:8080", True),
    ("x.org", "*", True),
    ("x.org", "", False),
)
def test_C28_exceptions_from_the_proxy_are_names_and_suffixes(host: str, rule: str, without: bool) -> None:
    through = Proxies("http://p:1", {"NO_PROXY": rule}).of(f"https://{host}/")
    assert (through is None) is without


@table(
    "host rule without",
    ("10.1.2.3", "10.0.0.0/8", True),
    ("[fd00::1]", "fd00::/8", True),
    ("11.1.2.3", "10.0.0.0/8", False),
    ("a.example", "10.0.0.0/8, b.example", False),
    ("10.1.2.3", "10.1.2.3:8080", True),
)
def test_exceptions_from_the_proxy_are_addresses_and_nets_too(host: str, rule: str, without: bool) -> None:
    assert (Proxies(env={"ALL_PROXY": "p:1", "no_proxy": rule}).of(f"http://{host}:8080/") is None) is without


@table(
    "host direct",
    ("localhost", True),
    ("ollama", True),
    ("gpu.lan", True),
    ("tower.home.arpa", True),
    ("0.0.0.0", True),
    ("192.168.1.5", True),
    ("100.101.102.103", True),
    ("[::1]", True),
    ("[fd7a::1]", True),
    ("[::ffff:10.0.0.1]", True),
    ("198.18.0.7", False),
    ("lan.example", False),
    ("9.9.9.9", False),
)
def test_C2_a_machine_of_ones_own_is_reached_without_a_proxy(host: str, direct: bool) -> None:
    assert (Proxies("http://p:1").of(f"http://{host}:8080/") is None) is direct


@pytest.mark.parametrize("proxy", ["socks4://p:1", "socks4a://user:secret-7@p:1", "ftp://p", "http://"])
def test_a_proxy_that_cannot_be_used_is_refused_and_never_gone_around(proxy: str) -> None:
    with pytest.raises(UnusableProxy, match="The proxy in ALL_PROXY cannot be used") as caught:
        Proxies(env={"all_proxy": proxy}).of("https://a.example/")
    assert "secret-7" not in str(caught.value)
    assert Proxies("", {"ALL_PROXY": proxy}).of("https://a.example/") is None
    assert Proxies(env={"ALL_PROXY": proxy, "NO_PROXY": "a.example"}).of("https://a.example/") is None
