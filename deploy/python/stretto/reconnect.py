# SPDX-License-Identifier: Apache-2.0
"""Decides when a broken stream is opened again, and logs each loss and each return once."""
import logging
import time

from stretto.errors import CallError, DeadlineExceeded, Unavailable, is_transient

log = logging.getLogger("stretto")

RETRY_SECONDS = 0.5


class Reconnector:
    """One for each stream that is followed."""

    def __init__(self, address: str, give_up: float) -> None:
        self._address = address
        self._give_up = give_up
        self._lost = False
        self._silence_is_fine = False
        self._heard = time.monotonic()

    def opened(self, may_stay_silent: bool) -> None:
        """Called when a stream is opened. Unless it may be silent for long, a stream without any
        event counts as a loss."""
        self._silence_is_fine = may_stay_silent

    def connected(self) -> None:
        """Called when something arrives."""
        if self._lost:
            log.warning("reconnected to %s", self._address)
        self._lost = False
        self._silence_is_fine = True
        self._heard = time.monotonic()

    def pause(self, error: CallError) -> float:
        """Called after the stream broke: how many seconds to wait before it is opened again.
        Errors: `error` if it will not pass; Unavailable after `give_up` seconds without contact."""
        if not is_transient(error):
            raise error
        # Our own deadline ends a stream regularly that has been silent.
        if isinstance(error, DeadlineExceeded) and self._silence_is_fine and not self._lost:
            return 0.0
        if not self._lost:
            self._heard = time.monotonic()
            log.warning("lost the coordinator at %s (%s); the job continues; retrying for %g s",
                        self._address, error, self._give_up)
        self._lost = True
        if time.monotonic() - self._heard >= self._give_up:
            raise Unavailable(f"{error}; gave up after {self._give_up:g} s")
        return RETRY_SECONDS
