"""A process of many that end the same jobs in every way; run as `python -m tests.live.race`.

Arguments: the URL of the store, a seed, how many jobs there are. Prints as JSON which jobs this
process has ended, and how many it has reaped. Down is waited for.
"""

from __future__ import annotations

import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gaq_middleware import Owner, StoreError
from gaq_middleware.core.commands import (
    CancelJob,
    CancelReply,
    Command,
    FinishJob,
    Outcome,
    ReapJobs,
)
from gaq_middleware.registry.redis import RedisStore
from gaq_middleware.registry.stores import new_attempt
from tests.helpers import NOW, make_settings

R = TypeVar("R")

TTL = 60.0
CHANNELS = 20
PATIENCE = 60.0


def owner_of(number: int) -> Owner:
    """Return the owner of a job."""
    return Owner(f"user-{number % CHANNELS}", str(number % CHANNELS))


class Racer:
    """One of the threads."""

    def __init__(self, store: RedisStore, seed: str, jobs: int) -> None:
        self.random = random.Random(seed)
        self.store, self.jobs = store, jobs
        self.ended: list[str] = []
        self.reaped = 0

    def run(self) -> None:
        """Try to end every job."""
        for number in self.random.sample(range(self.jobs), self.jobs):
            end = self.random.choice([self.done, self.fail, self.cancel, self.reap])
            end(number)

    def done(self, number: int) -> None:
        """End a job well."""
        command = FinishJob.done(f"j{number}", "/r", now=NOW, ttl=TTL, attempt=new_attempt())
        self.note(number, self.insist(command))

    def fail(self, number: int) -> None:
        """End a job badly."""
        command = FinishJob.error(f"j{number}", "no", now=NOW, ttl=TTL, attempt=new_attempt())
        self.note(number, self.insist(command))

    def cancel(self, number: int) -> None:
        """Cancel a job."""
        reply: CancelReply = self.insist(
            CancelJob(
                job_id=f"j{number}",
                owner=owner_of(number),
                now=NOW,
                ttl=TTL,
                attempt=new_attempt(),
            )
        )
        self.note(number, reply.outcome)

    def reap(self, number: int) -> None:
        """End one of the jobs that have become overdue."""
        self.reaped += self.insist(ReapJobs(now=NOW + TTL, limit=1))

    def note(self, number: int, outcome: Outcome) -> None:
        """Remember who won."""
        assert outcome in (Outcome.OK, Outcome.ENDED)
        if outcome is Outcome.OK:
            self.ended.append(f"j{number}")

    def insist(self, command: Command[R]) -> R:
        """Do a command, the same one again while the store is down."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return self.store.execute(command)
            except StoreError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)


def main(url: str, seed: str, jobs: str) -> None:
    """Race with eight threads."""
    store = RedisStore(make_settings(store_url=url, stream_limit="100000"))
    racers = [Racer(store, f"{seed}-{number}", int(jobs)) for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(Racer.run, racers))
    ended = [job for racer in racers for job in racer.ended]
    print(json.dumps({"ended": ended, "reaped": sum(racer.reaped for racer in racers)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
