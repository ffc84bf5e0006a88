"""The plan loop of a running site: learn from its log, plan from the plan in force, switch if it pays.

`Replanner.rounds` is the loop on one screen. It joins parts that do not know each other: Spark
learns (`pipeline.recent_traffic`), planners plan, the manager switches (`plan_access`). Whatever
fails in a round, the plan in force stays, and the round says why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Self

from nearcast.domain.fingerprint import scenario_fingerprint
from nearcast.domain.plan_files import write_plan
from nearcast.domain.scenario_files import read_scenario, write_scenario
from nearcast.domain.traffic import PresentScenario, Traffic, bring_up_to_date
from nearcast.errors import ConfigError, NearcastError, PipelineError
from nearcast.planning.flow_use import without_flow_use
from nearcast.planning.request import PlanRequest
from nearcast.planning.switching import weigh_new_plan
from nearcast.site.layout import MANAGER, SiteFolder
from nearcast.site.log_access import flush_logs
from nearcast.site.plan_access import (
    ManagerAccess,
    SitePlanInForce,
    adopt_plan,
    read_flows,
    read_in_force,
    wait_for_servers,
)
from nearcast.site.replan_rounds import ReplanRound, RoundsFolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ReplanSettings", "Replanner", "SiteOfReplanner"]

_log = logging.getLogger(__name__)
_HAVE_IT_WITHIN_S = 60.0
OpenSpark = Callable[[], "AbstractContextManager[SparkSession]"]


@dataclass(frozen=True, slots=True)
class ReplanSettings:
    """When to plan again, and when to switch."""

    every_s: float = 60.0
    """Between the end of a round and the next one."""
    window_s: float | None = None
    """How far back the log counts; None: as long as `every_s`."""
    method: str = "optimised"
    migration_price_ms: float = 0.0
    """What moving one spool must save, in ms of summed delay."""
    least_saving: float = 0.01
    """Part of the cost that a plan must save before it is worth a switch."""
    time_limit_s: float = 10.0
    """For the search, and once more for the bound."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("every_s", "time_limit_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, not {getattr(self, name)}")
        if self.window_s is not None and not self.window_s > 0:
            raise ConfigError(f"window_s must be positive, not {self.window_s}")
        if not 0 <= self.least_saving < 1:
            raise ConfigError(f"least_saving must be from 0 to 1, not {self.least_saving}")


@dataclass(frozen=True, slots=True)
class SiteOfReplanner:
    """Where a site's parts are found."""

    manager: ManagerAccess
    scenario: Path
    """What the site was made for."""
    log: Path
    """The event log of all its servers."""
    rounds: RoundsFolder
    """Where plans are written, readable by the manager."""
    server_urls: Sequence[str] = ()
    """Of the HTTP side of servers whose log is asked for before it is read; others write theirs
    when a segment ends."""

    @classmethod
    def of_folder(cls, site: SiteFolder) -> SiteOfReplanner:
        """Return where the parts of a site on this machine are."""
        return cls(
            ManagerAccess(site.manager_url, site.token),
            site.scenario,
            site.event_log,
            RoundsFolder(site.folder / "replans"),
            [f"http://127.0.0.1:{one.http_port}" for one in site.servers if one.server != MANAGER],
        )


class Replanner:
    """Plans a running site again and again.

    Parameters
    ----------
    open_spark
        Opens a session; called again after one that failed.
    clock
        Unix time, as servers write it into the log.
    """

    def __init__(
        self,
        site: SiteOfReplanner,
        settings: ReplanSettings,
        open_spark: OpenSpark,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._site, self._settings, self._clock = site, settings, clock
        self._spark = _Spark(open_spark)
        self._words: dict[tuple[str, str], bool] = {}
        self._words_until_s = 0.0
        self._switched_s = 0.0

    def rounds(self, stop: Event) -> Generator[ReplanRound, None, None]:
        """Plan, wait and measure, until told to stop; a round is told when it is measured."""
        with self._site.rounds.locked(), self._spark:
            while not stop.is_set():
                done = self._round()
                stop.wait(self._settings.every_s)
                if not done.failed:
                    done = replace(done, measured_after_ms=self._measure(done.began))
                try:
                    self._site.rounds.append(done)
                except NearcastError as error:
                    _log.warning("the round is not kept: %s", error)
                yield done

    def _round(self) -> ReplanRound:
        began_s = self._clock()
        try:
            return self._replan(began_s)
        except (NearcastError, OSError) as error:
            if isinstance(error, (PipelineError, OSError)):
                self._spark.forget()
            return ReplanRound(began_s, reason=str(error), failed=True)

    def _replan(self, began_s: float) -> ReplanRound:
        site, settings = self._site, self._settings
        scenario = read_scenario(site.scenario)
        force = read_in_force(site.manager, scenario)
        if (later := site.rounds.scenario_of(force.version)) is not None:
            scenario = read_scenario(later)
            force = read_in_force(site.manager, scenario)
        traffic = self._learn()
        learned_s = self._clock()
        present = bring_up_to_date(scenario, traffic)
        request = PlanRequest(
            force.model,
            settings.method,
            seed=settings.seed,
            time_limit_s=settings.time_limit_s,
            bound_limit_s=settings.time_limit_s,
            start=force.plan,
            migration_price_ms=settings.migration_price_ms,
        )
        found = ReplanRound(
            began_s,
            force.version,
            measured_before_ms=traffic.delay_ms,
            messages=sum(traffic.published.values()),
            moved_clients=present.moved_clients,
            changed_members=present.changed_members,
            unknown_clients=present.unknown_clients,
            unknown_topics=present.unknown_topics,
            bad_rows=traffic.bad_rows,
            learn_s=learned_s - began_s,
        )
        return self._decide(found, present, request, force)

    def _learn(self) -> Traffic:
        until_s = self._clock()
        flush_logs(self._site.server_urls)
        if not any(self._site.log.glob("publications/[!._]*.parquet")):
            raise PipelineError(f"{self._site.log}: the event log is empty")  # no need for Spark
        from nearcast.pipeline.recent_traffic import learn_traffic

        window_s = self._settings.window_s or self._settings.every_s
        traffic = learn_traffic(
            self._spark.session(),
            self._site.log,
            until_s - window_s,
            until_s,
            words_since_s=self._words_until_s,
            known_words=self._words,
        )
        # a row may be in a file that is written after a later one was read
        self._words, self._words_until_s = dict(traffic.subscriptions), until_s - window_s
        return traffic

    def _decide(
        self,
        found: ReplanRound,
        present: PresentScenario,
        request: PlanRequest,
        force: SitePlanInForce,
    ) -> ReplanRound:
        began_s = self._clock()
        # The scenario that is kept has the whole servers: what flows use is asked for each time.
        flows = read_flows(self._site.manager)
        left = replace(
            present,
            planned=without_flow_use(present.planned, flows),
            known=without_flow_use(present.known, flows),
        )
        weighed = weigh_new_plan(left, request, force.plan, self._settings.least_saving)
        found = replace(
            found,
            cost_before=weighed.cost_before,
            cost_after=weighed.cost_after,
            bound=weighed.bound,
            migrations=weighed.migrations,
            plan_s=self._clock() - began_s,
        )
        if not weighed.pays:
            return replace(found, reason=weighed.reason)
        report = replace(weighed.report, scenario_fingerprint=scenario_fingerprint(present.known))
        manager, began_s = self._site.manager, self._clock()
        with self._site.rounds.next_plan() as folder:
            made_for, plan_folder = folder / "scenario", folder / "plan"
            write_scenario(present.known, made_for, table_format="parquet")
            write_plan(weighed.plan, report, present.known, plan_folder, table_format="parquet")
            version = adopt_plan(manager, plan_folder, scenario=made_for, instead_of=force.version)
        self._switched_s = self._clock()
        found = replace(found, switched=True, plan_version=version, folder=folder.name)
        try:
            switch = wait_for_servers(manager, version, _HAVE_IT_WITHIN_S)
        except NearcastError as error:  # they get it from the manager when they are back
            return replace(found, reason=str(error), switch_s=self._clock() - began_s)
        return replace(
            found,
            switch_s=self._clock() - began_s,
            streams=switch["streams"],
            pause_p50_ms=_to_ms(switch["pause_p50_s"]),
            pause_p99_ms=_to_ms(switch["pause_p99_s"]),
        )

    def _measure(self, since_s: float) -> float | None:
        """Return the mean delay since the plan of the round is in force, if the log tells it."""
        from nearcast.pipeline.recent_traffic import measure_delay

        since_s, until_s = max(since_s, self._switched_s), self._clock()
        flush_logs(self._site.server_urls)
        try:
            return measure_delay(self._spark.session(), self._site.log, since_s, until_s)
        except (NearcastError, OSError) as error:
            self._spark.forget()
            _log.warning("the round is not measured: %s", error)
            return None


def _to_ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


class _Spark:
    """A session that is opened when it is needed, and again after one that failed."""

    def __init__(self, open_spark: OpenSpark) -> None:
        self._open, self._stack = open_spark, ExitStack()
        self._session: SparkSession | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def session(self) -> SparkSession:
        """Return a session that lives, as far as is known."""
        if self._session is None:
            self._session = self._stack.enter_context(self._open())
        return self._session

    def forget(self) -> None:
        """Open another one next time if this one is dead."""
        from nearcast.pipeline.session import is_alive

        if self._session is not None and not is_alive(self._session):
            self._session = None
            with suppress(Exception):  # of a dead JVM nothing can be closed
                self._stack.close()
            self._stack = ExitStack()
