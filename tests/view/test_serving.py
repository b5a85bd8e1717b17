"""A viewer that listens: its port, its token, and how it ends."""

import http.cookiejar
import logging
import signal
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest

from pcsuite.cli import main
from pcsuite.errors import ConfigError
from pcsuite.view.serving import Serving
from support.browser import Browser, find_chromium
from support.own_task import write_own_profile


def get(url):
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
    with opener.open(url, timeout=20) as answer:
        return answer.status


@pytest.mark.slow
def test_it_answers_behind_its_token_until_closed(tmp_path):
    serving = Serving(tmp_path)
    serving.start()
    try:
        assert get(serving.url) == 200
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(serving.url.partition("?")[0])
        assert serving.url.replace("&", "&amp;") in serving._repr_html_()
    finally:
        serving.close()
    with pytest.raises(urllib.error.URLError, match="refused"):
        get(serving.url)


def test_the_browser_is_given_a_file_and_no_token(tmp_path, monkeypatch):
    """Whoever lists processes sees what a browser was started with."""
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    serving = Serving(tmp_path, "a run")
    try:
        serving.open()
        serving.open()
        token = serving.url.partition("token=")[2]
        (first, second) = opened
        assert first == second
        assert token not in first
        file = Path(url2pathname(urlsplit(first).path))
        assert token in file.read_text()
        if sys.platform != "win32":
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    finally:
        serving.close()
    assert not file.exists()


@pytest.mark.slow
@pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed")
def test_a_browser_gets_in_by_the_file(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    serving = Serving(tmp_path)
    serving.start()
    try:
        serving.open()
        with Browser(tmp_path / "profile") as browser:
            browser.goto(opened[0])
            for _ in range(100):
                # There is no body where one page gives way to the next.
                text = browser.run("document.body?.innerText ?? ''")
                if "Runs" in text:
                    break
                time.sleep(0.1)
            assert "Runs" in text, text
            assert browser.run("location.search") == ""
    finally:
        serving.close()


def test_a_port_that_is_taken_and_a_host_that_others_reach(tmp_path):
    first = Serving(tmp_path)
    port = int(first.url.partition("127.0.0.1:")[2].partition("/")[0])
    with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 cannot be had"):
        Serving(tmp_path, port=port)
    first.close()
    with pytest.raises(ConfigError, match="others could reach it"):
        Serving(tmp_path, host="0.0.0.0")


def test_the_logging_of_the_process_that_opens_it_is_left_alone(tmp_path):
    closed = []

    class Handler(logging.Handler):
        def close(self):
            closed.append(self)
            super().close()

    handler = Handler()
    Serving(tmp_path).close()
    assert closed == []
    handler.close()


@pytest.mark.subprocess
@pytest.mark.parametrize("name", ["SIGHUP", "SIGTERM"])
def test_a_signal_ends_it_with_a_line_and_no_traceback(tmp_path, name):
    profile = str(write_own_profile(tmp_path, count=2))
    assert main(["run", "--quiet", "--config", profile]) == 0
    words = [sys.executable, "-m", "pcsuite", "view", "--config", profile, "--no-open"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as view:
        while "Ctrl-C" not in view.stdout.readline():
            assert view.poll() is None
        time.sleep(1)
        view.send_signal(getattr(signal, name))
        _, errors = view.communicate(timeout=30)
    assert f"ended by {name}" in errors
    assert "Traceback" not in errors
