"""`simfrontier serve` as a person starts it: a process of its own, at a port that is free."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.invoke import ROOT


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server: its process and its address, which ends in a slash."""

    process: subprocess.Popen[str]
    address: str

    @property
    def port(self) -> int:
        return int(self.address.rstrip("/").rpartition(":")[2])

    def text(self, path: str = "", link: Mapping[str, str] | None = None) -> str:
        with urlopen(f"{self.address}{path}?{urlencode(link or {})}") as response:
            return str(response.read().decode("utf-8"))

    def refusal(self, path: str, link: Mapping[str, str] | None = None, host: str = "127.0.0.1") -> tuple[int, str]:
        """The code and text with which a question is refused."""
        code, _, said = self.asked(path, {"Host": host}, link)
        assert code >= 400, f"{code}: not refused"
        return code, said

    def asked(
        self, path: str, headers: Mapping[str, str], link: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str], str]:
        """The code, headers and text of the answer to a question with these headers."""
        request = Request(f"{self.address}{path}?{urlencode(link or {})}", headers=dict(headers))
        try:
            response = urlopen(request)
        except HTTPError as error:
            response = error
        with response:
            return response.status, response.headers, response.read().decode("utf-8")

    def answer(self, link: Mapping[str, str] | None = None) -> dict[str, Any]:
        return self._json("answer", link)

    def _json(self, path: str, link: Mapping[str, str] | None) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.text(path, link))
        return found


@contextmanager
def served(scenario: Path | str, *options: str) -> Iterator[Served]:
    """The server of a scenario, ended at the end however it goes."""
    command = [sys.executable, "-m", "simfrontier", "serve", str(scenario), "--port", "0", "--no-open", *options]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line, line + process.stderr.read()
        yield Served(process=process, address=next(word for word in line.split() if word.startswith("http")))
    finally:
        process.kill()
        process.communicate()
