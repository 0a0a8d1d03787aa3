"""Acting on a fleet: who may, and the process that calls the services."""

import hashlib
import hmac
import itertools
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from fed_core.errors import ConfigError, FedError

#: Types of services that the page can call, and whether they take a yes or no.
CALLABLE: Mapping[str, bool] = {"std_srvs/srv/SetBool": True, "std_srvs/srv/Trigger": False}
#: Shortest token [characters].
LEAST_TOKEN = 8
#: Longest wait for an answer [s].
ANSWER_S = 15.0


class Token:
    """What one must know to act.

    Args:
        text: the token.

    Raises:
        ConfigError: it is too short, or cannot be sent in a header.
    """

    def __init__(self, text: str) -> None:
        if len(text) < LEAST_TOKEN or not text.isascii() or not text.isprintable() or " " in text:
            raise ConfigError(
                f"the token has to be at least {LEAST_TOKEN} printable ASCII characters without spaces; make one with: "
                "openssl rand -hex 16"
            )
        self._digest = hashlib.sha256(text.encode()).digest()

    def opened_by(self, header: str) -> bool:
        """Return whether an Authorization header holds it; takes the same time however much of it is right."""
        kind, _, given = header.partition(" ")
        digest = hashlib.sha256(given.strip().encode(errors="replace")).digest()
        return hmac.compare_digest(digest, self._digest) and kind.lower() == "bearer"


def read_token(file: Path | None, variable: str | None) -> Token | None:
    """Return the token of a file, else of the environment variable FED_PERCEPTION_TOKEN; None without either.

    Raises:
        ConfigError: the file cannot be read, or the token is none.
    """
    if file is None:
        return Token(variable.strip()) if variable else None
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as err:
        raise ConfigError(f"cannot read the token file {file}: {getattr(err, 'strerror', err)}") from err
    return Token(text)


@dataclass(frozen=True)
class Answer:
    """What a service said.

    Attributes:
        ok: whether it did what was asked.
        text: for people.
    """

    ok: bool
    text: str


class Control:
    """Calls services through a process that knows ROS; it is started with the first call and again after its end.

    Calls come one at a time.

    Args:
        command: the process; it reads calls and writes answers as JSON lines.
        environment: its variables.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._process: subprocess.Popen[str] | None = None
        self._answers: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._log = tempfile.TemporaryFile()

    def call(self, service: str, kind: str, value: bool | None) -> Answer:
        """Call a service and return what it said.

        Raises:
            FedError: no answer came.
        """
        with self._lock:
            number = next(self._ids)
            asked = {"id": number, "service": service, "type": kind}
            line = json.dumps(asked if value is None else {**asked, "value": value})
            pipe = self._running().stdin
            if pipe is None:
                raise FedError("the control process has no input")
            try:
                pipe.write(line + "\n")
                pipe.flush()
            except OSError as err:
                raise self._ended() from err
            return self._answer(number, service)

    def close(self) -> None:
        """End the process."""
        self._end()
        self._log.close()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=8)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self._answers = SimpleQueue()
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(  # noqa: S603 - our own node
                self._command,
                env=dict(self._environment),
                stdin=pipe,
                stdout=pipe,
                stderr=self._log,
                text=True,
                start_new_session=True,
            )
            threading.Thread(target=self._read, args=(self._process, self._answers), daemon=True).start()
        return self._process

    def _answer(self, number: int, service: str) -> Answer:
        """Wait for the answer of a call; those of earlier calls, which came too late, are dropped."""
        while True:
            try:
                told = self._answers.get(timeout=ANSWER_S)
            except Empty:
                raise FedError(f"{service} gave no answer within {ANSWER_S:g} s") from None
            if not told:
                raise self._ended()
            if told.get("id") == number:
                return Answer(told.get("ok") is True, str(told.get("text", "")))

    @staticmethod
    def _read(process: "subprocess.Popen[str]", answers: "SimpleQueue[dict[str, Any]]") -> None:
        for line in process.stdout or ():
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if isinstance(told, dict) and told:
                answers.put(told)
        answers.put({})

    def _ended(self) -> FedError:
        """Return what to say of a process that takes or gives no more; the next call starts another."""
        self._end()
        size = os.fstat(self._log.fileno()).st_size
        text = os.pread(self._log.fileno(), 4096, max(0, size - 4096))
        lines = text.decode(errors="replace").strip().splitlines()
        said = lines[-1].removeprefix("error: ") if lines else "it wrote nothing"
        return FedError(f"the control process ended: {said}")
