"""The environment of a child is a list."""

from pcsuite._util.processes import NETWORK, PACKAGES, child_environment


def test_nothing_but_the_list_goes_along(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index")
    monkeypatch.setenv("http_proxy", "http://proxy")
    plain = child_environment()
    assert "SOME_API_KEY" not in plain
    assert plain["LC_ALL"] == "C"
    assert "http_proxy" not in plain
    assert child_environment(NETWORK)["http_proxy"] == "http://proxy"
    assert child_environment(PACKAGES)["PIP_INDEX_URL"] == "https://index"
    assert child_environment(("SOME_",))["SOME_API_KEY"] == "secret"
    assert child_environment(values={"PATH": "/x"})["PATH"] == "/x"
