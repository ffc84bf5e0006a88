"""Measures one planning method at one size in this process and prints the numbers as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import asdict

from nearcast.domain.generators.reloc2021 import Reloc2021, generate_reloc2021
from nearcast.domain.plan import Model
from nearcast.experiments.plan_scale import SIZES, ScalePoint
from nearcast.planning.assessment import assess_homes
from nearcast.planning.registry import find_method
from nearcast.planning.request import PlanRequest

_MEMBERS_PER_TOPIC = 10.3
"""With 3 % repeats this gives ten clients a topic."""


def main() -> None:
    """Measure the task given as JSON in the first argument."""
    task = json.loads(sys.argv[1])
    topics, side = SIZES[task["clients"]]
    parameters = Reloc2021(
        topics=topics, servers_per_side=side, members_per_topic=_MEMBERS_PER_TOPIC
    )
    request = PlanRequest(
        model=Model.RATIO,
        method=task["method"],
        seed=task["seed"],
        regions=max(4, side * side // 4),
        time_limit_s=task["time_limit_s"] if task["method"] == "optimised" else None,
    )
    method = find_method(request.method, request.model)
    # Compiled code comes from a cache, but loading it takes a second: not what is measured here.
    tiny = generate_reloc2021(Reloc2021(topics=8), seed=0)
    method.plan(tiny, PlanRequest(model=Model.RATIO, method=request.method, iterations=1000))
    scenario = generate_reloc2021(parameters, task["seed"])
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    decision = method.plan(scenario, request)
    seconds, cpu_seconds = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
    bound_seconds = float(decision.search.get("bound_seconds", 0.0))
    point = ScalePoint(
        method=request.method,
        clients=len(scenario.clients),
        topics=topics,
        servers=side * side,
        members=len(scenario.members),
        cost_ms=assess_homes(scenario, decision.homes, Model.RATIO).cost,
        bound_ms=decision.bound,
        seconds=seconds - bound_seconds,
        cpu_seconds=cpu_seconds - bound_seconds * cpu_seconds / max(seconds, 1e-9),
        bound_seconds=bound_seconds,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
    sys.stdout.write(json.dumps(asdict(point)))


if __name__ == "__main__":
    main()
