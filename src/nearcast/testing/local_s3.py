"""A real S3 API on this machine: S3Proxy on a free loopback port, its objects in memory."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import tempfile
import urllib.request
from collections.abc import Mapping
from email.utils import formatdate
from pathlib import Path
from types import TracebackType
from typing import Self

from nearcast.links.maven_jars import S3_SERVER, find_jars
from nearcast.links.tied_process import tied
from nearcast.testing.started_program import java_command, start_program, wait_until_up

__all__ = ["LocalS3"]

_BUCKET = "nearcast"
_STARTED = re.compile(r"Started ServerConnector.*\{127\.0\.0\.1:(\d+)\}")
_USER, _SECRET = "local-user", "local-secret"


class LocalS3:
    """An S3 with one empty bucket and one user, up while the block runs and gone afterwards.

    Parameters
    ----------
    timeout_s : after this a server that is not up is an error.

    Raises
    ------
    ConfigError
        On entry, when its jar or Java is missing or it does not come up; with the end of its log.
    """

    url = f"s3a://{_BUCKET}"
    """What paths begin with."""

    def __init__(self, *, timeout_s: float = 60.0) -> None:
        self._timeout_s = timeout_s
        self._endpoint = ""

    @property
    def address(self) -> Mapping[str, str]:
        """Settings of Hadoop by which it finds the bucket."""
        return {
            "fs.s3a.endpoint": self._endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.path.style.access": "true",
            # one try: it is near, and a test of what fails should not wait
            "fs.s3a.attempts.maximum": "1",
            "fs.s3a.retry.limit": "1",
        }

    @property
    def credentials(self) -> Mapping[str, str]:
        """Settings of Hadoop by which it is let in."""
        return {"fs.s3a.access.key": _USER, "fs.s3a.secret.key": _SECRET}

    def __enter__(self) -> Self:
        (jar,) = find_jars(S3_SERVER)
        self._temporary = tempfile.TemporaryDirectory(
            prefix="nearcast-s3-", ignore_cleanup_errors=True
        )
        folder = Path(self._temporary.name)
        settings = folder / "settings"
        settings.write_text(
            "s3proxy.endpoint=http://127.0.0.1:0\ns3proxy.authorization=aws-v2-or-v4\n"
            # what Hadoop says of tags when it copies, for one
            "s3proxy.ignore-unknown-headers=true\n"
            f"s3proxy.identity={_USER}\ns3proxy.credential={_SECRET}\n"
            "jclouds.provider=transient-nio2\njclouds.identity=none\njclouds.credential=none\n"
        )
        log = folder / "s3.log"
        command = java_command("-jar", str(jar), "--properties", str(settings))
        self._process = start_program(tied(command), log, folder=folder)
        try:
            started = wait_until_up(
                self._process, "the S3 server", log, _STARTED.search, self._timeout_s
            )
            self._endpoint = f"http://127.0.0.1:{started[1]}"
            self._make_bucket()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _make_bucket(self) -> None:
        """Make the bucket, which Hadoop cannot; signed as S3's second version wants it."""
        date = formatdate(usegmt=True)
        to_sign = f"PUT\n\n\n{date}\n/{_BUCKET}"
        mac = hmac.digest(_SECRET.encode(), to_sign.encode(), hashlib.sha1)
        signature = f"AWS {_USER}:{base64.b64encode(mac).decode()}"
        request = urllib.request.Request(f"{self._endpoint}/{_BUCKET}", method="PUT")
        request.add_header("Date", date)
        request.add_header("Authorization", signature)
        with urllib.request.urlopen(request, timeout=self._timeout_s):
            pass

    def _end(self) -> None:
        # It keeps nothing that would have to be written.
        self._process.kill()
        self._process.wait()
        self._temporary.cleanup()
