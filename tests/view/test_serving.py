"""A viewer that listens: its port, its token, and how it ends."""

import http.cookiejar
import logging
import urllib.error
import urllib.request

import pytest

from pcsuite.errors import ConfigError
from pcsuite.view.serving import Serving


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
