"""JSON over HTTP to a server that may be busy, slow or broken: tried again, and given up with its name.

Tried again: 408, 425, 429 (as `Retry-After` says), 5xx, connections that fail or break, answers that take
too long, and answers that are not whole or not of use. Not tried again: what the server refuses. Knows
nothing of what is asked.
"""

import asyncio
import email.utils
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from cef_env.errors import InstrumentError, UserError

Result = TypeVar("Result")

BUSY = (408, 425, 429)
"""Statuses below 500 that say: later."""
CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class Retry:
    """How a request is tried again: after half to all of `first_s`, then of twice as much, and so on."""

    attempts: int = 6
    first_s: float = 1.0
    most_s: float = 60.0
    """The longest wait of our own."""
    patience_s: float = 300.0
    """The longest wait that the server may ask for; a request that is to wait longer is given up."""

    def wait_s(self, attempt: int, told: float | None) -> float:
        """How long to wait after attempt number `attempt` (from 0)."""
        own = min(self.most_s, self.first_s * 2**attempt) * _jitter.uniform(0.5, 1)
        return own if told is None else told + own * 0.1  # not all who were told the same at once


_jitter = random.Random()


class RefusedError(UserError):
    """The server will not do what was asked, however often."""


class UnusableError(Exception):
    """Raised by the reader of an answer: it is not what was asked for."""


class _AgainError(Exception):
    """Why a request is worth trying again, and when the server wants it."""

    def __init__(self, cause: str, after_s: float | None = None) -> None:
        super().__init__(cause)
        self.after_s = after_s


class Endpoint:
    """Where JSON is posted to, and how. Sessions are opened on it, one for each event loop.

    Args:
        url: of the endpoint.
        headers: of each request.
        concurrency: requests of a session at once.
        timeout_s: of one attempt, all of it; a server that sends a byte now and then does not prolong it.
        retry: see there.

    Raises `UserError` where httpx is missing or the address is none.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], concurrency: int, timeout_s: float, retry: Retry
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise UserError(f'{url}: {error}; pip install "cef-env[server]"') from error
        if concurrency < 1 or retry.attempts < 1 or not timeout_s > 0:
            raise UserError("concurrency, attempts and timeout_s must be positive")
        try:
            self.url = httpx.URL(url)
        except httpx.InvalidURL as error:
            raise UserError(f"{url!r} is no address: {error}") from error
        if self.url.port is not None and self.url.port > 65535:
            raise UserError(f"{url!r} is no address: there is no port {self.url.port}")
        self.httpx = httpx
        self.headers = dict(headers)
        self.concurrency = concurrency
        self.timeout_s = timeout_s
        self.retry = retry
        self.tls = httpx.create_ssl_context()  # reading the certificates takes longer than a short request


class Session:
    """Posts to an endpoint. An async context manager."""

    def __init__(self, endpoint: Endpoint) -> None:
        httpx = self._httpx = endpoint.httpx
        self._endpoint = endpoint
        self._free = asyncio.Semaphore(endpoint.concurrency)
        self._http = httpx.AsyncClient(
            headers=endpoint.headers,
            timeout=httpx.Timeout(endpoint.timeout_s, connect=min(CONNECT_S, endpoint.timeout_s)),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=endpoint.concurrency),
            verify=endpoint.tls,
        )

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def post(self, body: Mapping[str, Any], read: Callable[[Any], Result]) -> Result:
        """`read` of the server's JSON answer. It raises `UnusableError` for one that is of no use.

        Raises `RefusedError` for what the server refuses; `InstrumentError` after the last attempt.
        """
        url, retry = self._endpoint.url, self._endpoint.retry
        for attempt in range(retry.attempts):
            try:
                async with self._free:
                    return read(await self._attempt(body))
            except UnusableError as error:
                cause = _AgainError(f"an answer that is of no use ({error})")
            except _AgainError as error:
                cause = error
            if (cause.after_s or 0) > retry.patience_s:
                raise InstrumentError(f"{url}: {cause}, and asks to wait {cause.after_s:g} s")
            if attempt + 1 < retry.attempts:
                await asyncio.sleep(retry.wait_s(attempt, cause.after_s))
        raise InstrumentError(f"{url}: no answer after {retry.attempts} attempts; last: {cause}")

    async def _attempt(self, body: Mapping[str, Any]) -> Any:
        httpx = self._httpx
        try:
            async with asyncio.timeout(self._endpoint.timeout_s):
                response = await self._http.post(self._endpoint.url, json=body)
        except (TimeoutError, httpx.TimeoutException) as error:
            what = "connection" if isinstance(error, httpx.ConnectTimeout) else "whole answer"
            raise _AgainError(f"no {what} within the time given") from error
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL) as error:
            raise UserError(f"{self._endpoint.url}: {error}") from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise _AgainError(f"{type(error).__name__}: {error}") from error
        status = response.status_code
        if status in BUSY or status >= 500:
            after = _after_s(response.headers.get("Retry-After"))
            raise _AgainError(f"status {status}: {_message(response)}", after)
        if status != 200:
            raise RefusedError(f"{self._endpoint.url} refuses with status {status}: {_message(response)}")
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise _AgainError(f"an answer that is not JSON ({error})") from error


def _after_s(value: str | None) -> float | None:
    """Seconds of a Retry-After header: a number, or a date."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _message(response: Any) -> str:
    """What the server says, in one line."""
    try:
        said = response.json()
    except (ValueError, RecursionError):
        said = response.text
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and said.get(name):
            said = said[name]
    return " ".join(str(said).split())[:500] or "no reason given"
