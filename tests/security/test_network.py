"""The two judgements over addresses, as tables."""

import ipaddress
from pathlib import Path

import certifi
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanobot.errors import AddressBlocked, FetchError
from nanobot.security.network import MAX_URL, Exceptions, Hosts, judge_answers, judge_ip, judge_url
from nanobot.utils.connections import certificates
from tests.tables import table

BAD_URLS = [
    "",
    "example.com",
    "//example.com/",
    "http:/example.com",
    "http:///path",
    "http://",
    "ftp://example.com/",
    "file:///etc/passwd",
    "javascript:alert(1)",
    "data:text/plain,x",
    "http://user@example.com/",
    "http://user:pass@example.com/",
    "http://example.com%00.evil.example/",
    "http://%31%32%37.0.0.1/",
    "http://example.com:0/",
    "http://example.com:65536/",
    "http://example.com:-1/",
    "http://example.com:0x50/",
    "http://example.com:８０/",
    "http://exa mple.com/",
    " http://example.com/",
    "http://example.com/a b",
    "http://example.com/\n",
    "http://example.com/\x00",
    "http://example.com\\@127.0.0.1/",
    "http:\\\\127.0.0.1/",
    "http://127.1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://0177.0.0.1/",
    "http://127.0.0.1./",
    "http://①②⑦.⓪.⓪.①/",
    "http://127。0。0。1/",
    "http://[::1/",
    "http://[]/",
    "http://:80/",
    "http://[::1]x:80/",
    "http://a[::1]/",
    "http://[::1].example.com/",
    "http://[fe80::1%25eth0]/",
    "http://[v1.x]/",
    "http://a..example/",
    "http://-bad.example/",
    "http://exa,mple.com/",
    "http://" + "a" * 64 + ".example/",
    "http://example.com/" + "a" * 8192,
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_K03_a_bad_url_is_refused_by_its_text_alone(url: str) -> None:
    with pytest.raises(FetchError) as caught:
        judge_url(url)
    assert caught.value.kind == "invalid_input"


def test_a_login_in_a_url_is_named_and_a_name_has_253_characters_at_most() -> None:
    with pytest.raises(FetchError, match="user name or password; leave them out"):
        judge_url("http://user:pass@example.com/")
    longest = ".".join(["a" * 61] * 4) + ".bcdef"
    assert judge_url(f"http://{longest}/").host == longest
    with pytest.raises(FetchError, match="not a valid host name"):
        judge_url(f"http://{longest}g/")


@table(
    "name",
    *(
        "localhost LOCALHOST a.localhost. nas printer.local x.internal r.lan a.home.arpa metadata.goog "
        "local\u00adhost ⓛocalhost"
    ).split(),
)
def test_local_names_are_refused_unless_the_operator_names_them(name: str) -> None:
    with pytest.raises(AddressBlocked):
        judge_url(f"http://{name}/")


@table(
    "url request_url host port",
    ("http://example.com", "http://example.com", "example.com", 80),
    ("http://example.com:/", "http://example.com/", "example.com", 80),
    ("https://[2001:4860:4860::8888]:", "https://[2001:4860:4860::8888]", "2001:4860:4860::8888", 443),
    ("HTTPS://EXAMPLE.com:443/A?b#c", "https://example.com/A?b#c", "example.com", 443),
    ("http://example.com:8080/x", "http://example.com:8080/x", "example.com", 8080),
    ("http://münchen.example/", "http://xn--mnchen-3ya.example/", "xn--mnchen-3ya.example", 80),
    ("http://127.public.example/", "http://127.public.example/", "127.public.example", 80),
    ("http://[2606:4700:0:0::ABCD]/", "http://[2606:4700::abcd]/", "2606:4700::abcd", 80),
    ("http://[2606:4700::1111]:81/", "http://[2606:4700::1111]:81/", "2606:4700::1111", 81),
    ("http://example.com/?u=http://127.0.0.1/", "http://example.com/?u=http://127.0.0.1/", "example.com", 80),
)
def test_a_good_url_is_read_in_its_plain_form(url: str, request_url: str, host: str, port: int) -> None:
    target = judge_url(url)
    assert (target.url, target.host, target.port) == (request_url, host, port)


REFUSED = (
    "0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 168.63.129.16 169.254.169.254 172.31.255.255 192.0.0.192 192.0.2.1 "
    "192.88.99.1 192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 224.0.0.1 240.0.0.1 255.255.255.255 "
    ":: ::1 ::127.0.0.1 ::ffff:127.0.0.1 ::ffff:93.184.216.34 ::ffff:0:a.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe "
    "64:ff9b:1::1 100::1 2001::1 2001:2::1 2001:10::1 2001:db8::1 2002:7f00:1::1 2002:5db8:d822::1 3fff::1 5f00::1 "
    "fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1 ff0e::1 2001:4860::5efe:10.0.0.1 2001:4860::200:5efe:10.0.0.1"
)
REACHED = (
    "1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 172.15.255.255 172.32.0.0 "
    "192.0.1.0 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700:4700::1111 2001:200::1 2001:3::1 2001:4:112::1 "
    "2003::1 2a00:1450::1 64:ff9b::5db8:d822 2001:4860::5efe:93.184.216.34"
)


@pytest.mark.parametrize("address", [word.replace("a.0.0.1", "a00:1") for word in REFUSED.split()])
def test_M3_special_addresses_are_refused_in_every_form(address: str) -> None:
    assert judge_ip(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", REACHED.split())
def test_M3_public_neighbours_are_reached(address: str) -> None:
    assert judge_ip(ipaddress.ip_address(address)) is None


def test_one_bad_answer_refuses_the_name() -> None:
    with pytest.raises(AddressBlocked, match=r"10\.0\.0\.1"):
        judge_answers("mixed.example", ["93.184.216.34", "10.0.0.1"])


@pytest.mark.parametrize(("answer", "says"), [("nonsense", "which is no address"), ("198.18.0.1", "no site has")])
def test_an_answer_that_is_no_address_or_an_invented_one_refuses_the_name(answer: str, says: str) -> None:
    with pytest.raises(AddressBlocked, match=says):
        judge_answers("odd.example", ["93.184.216.34", answer])


def test_metadata_stays_closed_until_it_is_named_exactly() -> None:
    assert judge_ip(ipaddress.ip_address("169.254.169.254")) == "a cloud metadata address"
    wide = Exceptions.parse(["169.254.0.0/16", "evil.example", "0.0.0.0/0"])
    assert judge_ip(ipaddress.ip_address("169.254.1.1"), wide) is None
    assert judge_ip(ipaddress.ip_address("169.254.169.254"), wide)
    with pytest.raises(AddressBlocked):
        judge_answers("evil.example", ["169.254.169.254"], wide)
    assert judge_ip(ipaddress.ip_address("169.254.169.254"), Exceptions.parse(["169.254.169.254"])) is None


def test_the_operator_opens_nets_names_and_everything_below_a_name() -> None:
    opened = Exceptions.parse(["192.168.7.5/16", "nas.lan", "*.corp.example"])
    assert judge_answers("x.example", ["192.168.3.4"], opened)
    assert judge_url("http://nas.lan/", opened).host == "nas.lan"
    assert judge_answers("wiki.corp.example", ["10.1.2.3"], opened)
    with pytest.raises(AddressBlocked):
        judge_answers("other.example", ["10.1.2.3"], opened)
    with pytest.raises(ValueError, match="neither a net"):
        Exceptions.parse(["not a net!"])


@given(st.text(max_size=60))
def test_any_text_is_judged_without_another_error(text: str) -> None:
    for url in (text, "http://" + text, "https://[" + text):
        try:
            target = judge_url(url)
        except FetchError:
            continue
        assert target.host
        assert target.host.isascii()


def test_the_certificates_are_loaded_once_and_are_those_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert certificates() is certificates()
    own = tmp_path / "company.pem"
    first = Path(certifi.where()).read_text(encoding="utf-8").partition("-----END CERTIFICATE-----")
    own.write_text(f"{first[0]}{first[1]}\n", encoding="utf-8")
    monkeypatch.setenv("SSL_CERT_FILE", str(own))
    assert len(certificates.__wrapped__().get_ca_certs()) == 1


@table(
    "allow deny read refused",
    ([], ["ads.example", "9.9.9.9"], ["example", "loads.example", "9.9.9.8", "9.9"], ["ads.example", "x.ads.example"]),
    (["docs.example"], ["old.docs.example"], ["docs.example", "a.docs.example"], ["example", "a.old.docs.example"]),
    (["1.2.3.4", "[2606:4700::1]"], [], ["1.2.3.4", "2606:4700::1"], ["9.1.2.3.4", "2606:4700::2", "4", "3.4"]),
    (
        ["2606:4700:0::1", "*.docs.example", "Bücher.example"],
        [],
        ["2606:4700::1", "xn--bcher-kva.example"],
        ["b.example"],
    ),
)
def test_hosts_are_read_by_their_name_or_one_above_it_and_addresses_by_themselves(
    allow: list[str], deny: list[str], read: list[str], refused: list[str]
) -> None:
    hosts = Hosts.parse(allow, deny)
    for host in read:
        hosts.judge(host)
    for host in refused:
        with pytest.raises(AddressBlocked, match="is not read here"):
            hosts.judge(host)


def test_a_link_is_shown_where_its_host_may_be_read() -> None:
    anything, some, none = Hosts(), Hosts.parse(["docs.example"], []), Hosts.parse([], ["docs.example"])
    url = "https://docs.example/page"
    assert [hosts.lets(url) for hosts in (anything, some, none)] == [True, True, False]
    assert [hosts.lets("no address") for hosts in (anything, some, none)] == [True, False, False]


def test_the_longest_url_and_the_first_and_last_port_are_taken() -> None:
    url = "https://example.com/"
    assert judge_url(url.ljust(MAX_URL, "a")).url.endswith("a")
    assert MAX_URL == 8_192, "what servers take at least"
    with pytest.raises(FetchError, match="8193 characters; 8192 is the limit"):
        judge_url(url.ljust(MAX_URL + 1, "a"))
    assert [judge_url(f"http://example.com:{port}/").port for port in (1, 65_535)] == [1, 65_535]
    assert [judge_url(one).port for one in (url, "http://example.com/")] == [443, 80]


def test_an_address_next_to_one_that_is_refused_is_reached_through_nat64_and_isatap_too() -> None:
    assert judge_ip(ipaddress.ip_address("64:ff9b::168.63.129.17")) is None
    assert judge_ip(ipaddress.ip_address("64:ff9b::168.63.129.16")) is not None
    assert judge_ip(ipaddress.ip_address("2606:4700::5eff:7f00:1")) is None, "an ISATAP address has 5efe there"
    assert judge_ip(ipaddress.ip_address("2606:4700::5efe:7f00:1")) is not None


def test_an_address_that_a_proxy_has_invented_is_told_apart() -> None:
    with pytest.raises(AddressBlocked) as refused:
        judge_answers("example.com", ["198.18.0.1"])
    assert refused.value.invented
    with pytest.raises(AddressBlocked) as refused:
        judge_answers("example.com", ["10.0.0.1"])
    assert not refused.value.invented


def test_an_exception_opens_what_it_names_and_nothing_beside_it() -> None:
    names = Exceptions.parse(("nas.test", ".lan", "10.0.0.1"))
    assert [host for host in ("nas.test", "evilnas.test", "a.nas.test", "x.lan") if names.covers_name(host)] == [
        "nas.test",
        "x.lan",
    ]
    assert judge_ip(ipaddress.ip_address("169.254.169.254"), names), "one address is no other"
    assert judge_ip(ipaddress.ip_address("2606:4700::1%eth0")), "nor is one of an interface"
    denied = Exceptions(hosts=Hosts.parse([], ["2606:4700::2"]))
    with pytest.raises(AddressBlocked, match="deny"):
        judge_url("http://[2606:4700:0::2]/", denied)
    with pytest.raises(FetchError, match="has no host"):
        judge_url("http:///a")
    for opens in ("198.18.0.0/15", "site.test"):
        assert judge_answers("site.test", ["198.18.0.7"], Exceptions.parse((opens,)))
    with pytest.raises(AddressBlocked, match=r"198\.18\.0\.7 is in the special-purpose net"):
        judge_answers("198.18.0.7", ["198.18.0.7"], Exceptions(invented=True))
