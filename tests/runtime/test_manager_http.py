"""Operators' requests to a manager that only remembers what it was asked."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nearcast.errors import ConfigError, OutputError, PlanError, TrustError
from nearcast.flow.flow import Flow
from nearcast.runtime.manager_flows import FlowMove, FlowStart
from nearcast.runtime.manager_http import (
    CredentialKind,
    Tokens,
    TooManyError,
    answer_operator,
    read_token,
)
from nearcast.runtime.manager_plans import AskedPlan, PlanPart
from nearcast.server.enrolment import EnrolledClient, Enrolment
from nearcast.server.processor_rules import ProcessorRule, check_rules
from nearcast.server.site_orders import ServerOrder
from nearcast.trust.rights import Rights

TOKEN = "a-secret-of-operators"
SHOWN = {"Authorization": f"Bearer {TOKEN}"}
ENROL_TOKEN = "a-secret-for-enrolment"
HOME = {"host": "10.0.0.1", "port": 7001, "credential": "ab"}


class FakeFlows:
    def __init__(self) -> None:
        self.asked: list[object] = []

    async def run(self, asked: FlowStart) -> dict[str, Any]:
        self.asked.append(asked)
        return {"number": 3}

    def stop(self, name: str) -> dict[str, Any]:
        self.asked.append(name)
        return {}

    def move(self, name: str, move: FlowMove) -> dict[str, Any]:
        self.asked.append((name, move))
        return {}

    def show(self) -> list[dict[str, Any]]:
        return [{"name": "one"}]


class FakeService:
    credential = b"manager"
    plane = b""

    def __init__(self) -> None:
        self.by_operator: list[bool] = []
        self.revoked: list[tuple[str, str]] = []
        self.enrolled: dict[str, Enrolment] = {}
        self.adopted: list[AskedPlan] = []
        self.processors: tuple[ProcessorRule, ...] = ()
        self.flows = FakeFlows()
        self.error: Exception | None = None
        self.refused_requests: Counter[str] = Counter()

    async def enrol(
        self, enrolments: Sequence[Enrolment], *, is_operator: bool
    ) -> list[EnrolledClient]:
        self.by_operator.append(is_operator)
        if self.error is not None:
            raise self.error
        self.enrolled.update((one.client, one) for one in enrolments)
        return [EnrolledClient(one.client, one.public_key, "e1") for one in enrolments]

    def find_client(self, client: str) -> EnrolledClient | None:
        found = self.enrolled.get(client)
        return EnrolledClient(found.client, found.public_key, "e1") if found else None

    def server(self, server: str) -> ServerOrder:
        return ServerOrder(server, "10.0.0.1", 7001, b"\1" * 32, credential=b"\xab")

    def ways_from(self, home: str) -> list[str]:
        return ["e2"] if home == "e1" else []

    async def revoke(self, kind: CredentialKind, name: str) -> int:
        self.revoked.append((kind, name))
        return len(self.revoked)

    async def set_processors(self, rules: Sequence[ProcessorRule]) -> int:
        check_rules(rules)
        self.processors = tuple(rules)
        return 7

    async def adopt(self, asked: AskedPlan) -> int:
        if self.error is not None:
            raise self.error
        self.adopted.append(asked)
        return len(self.adopted) + 1

    def plan_part(self, part: PlanPart, after: str) -> dict[str, Any]:
        return {"part": part, "after": after}


def answer(
    service: FakeService, method: str, path: str, body: bytes, headers: Mapping[str, str] = SHOWN
) -> tuple[int, Any]:
    tokens = Tokens(TOKEN, ENROL_TOKEN)
    return asyncio.run(answer_operator(service, tokens, method, path, body, headers))


def post(service: FakeService, path: str, body: Any) -> tuple[int, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return answer(service, "POST", path, raw)


def test_a_client_is_enrolled_and_told_its_home() -> None:
    service = FakeService()
    body = {"client": "c/1", "public_key": "07" * 32, "x_km": 1.5, "y_km": 2}
    expected = {
        "manager": b"manager".hex(),
        "servers": {"e1": HOME, "e2": HOME},
        "clients": [{"client": "c/1", "credential": "", "home": "e1", "ways": ["e2"]}],
    }
    assert post(service, "/clients", body) == (200, expected)
    assert service.enrolled == {"c/1": Enrolment("c/1", b"\x07" * 32, (1.5, 2.0))}
    assert answer(service, "GET", "/clients/c%2F1", b"") == (200, expected)


def test_several_clients_are_enrolled_at_once() -> None:
    service = FakeService()
    rights = {"rights": [["a/#"], []], "days": 2}
    bodies = [{"client": n, "public_key": "", **rights} for n in "ab"]
    status, found = post(service, "/clients", bodies)
    assert (status, [one["client"] for one in found["clients"]]) == (200, ["a", "b"])
    assert service.enrolled["b"] == Enrolment("b", b"", None, Rights(("a/#",)), 2.0)


def test_the_token_of_enrolment_enrols_and_does_nothing_else() -> None:
    service, shown = FakeService(), {"Authorization": f"Bearer {ENROL_TOKEN}"}
    body = b'{"client": "a", "public_key": ""}'
    assert answer(service, "POST", "/clients", body, shown)[0] == 200
    assert answer(service, "GET", "/clients/a", b"", shown)[0] == 200
    post(service, "/clients", body)
    assert service.by_operator == [False, True]
    for method, path in (
        ("POST", "/plans"),
        ("PUT", "/processors"),
        ("GET", "/processors"),
        ("POST", "/revocations"),
        ("GET", "/clientsx"),
        ("DELETE", "/"),
    ):
        assert answer(service, method, path, b"{}", shown)[0] == 403
    without = asyncio.run(answer_operator(service, Tokens(TOKEN), "POST", "/clients", body, shown))
    assert without[0] == 401


def test_an_operator_runs_shows_moves_and_stops_flows() -> None:
    service = FakeService()
    flow = {"name": "a/b", "sources": ["in"], "components": {}}
    run = answer(service, "PUT", "/flows", json.dumps({"flow": flow}).encode())
    assert run == (200, {"number": 3})
    assert answer(service, "GET", "/flows", b"") == (200, [{"name": "one"}])
    move = {"component": "c", "giver": "e1", "taker": "e2", "low": 0, "high": 8}
    assert post(service, "/flows/a%2Fb/moves", move)[0] == 200
    assert answer(service, "DELETE", "/flows/a%2Fb", b"")[0] == 200
    started = FlowStart(Flow("a/b", ("in",), {}))
    moved = ("a/b", FlowMove("c", "e1", "e2", 0, 8))
    assert service.flows.asked == [started, moved, "a/b"]
    for method, path, body in (
        ("PUT", "/flows", b'{"flow": {"name": "x"}}'),
        ("POST", "/flows/x/moves", b"{}"),
    ):
        assert answer(service, method, path, body)[0] == 400
    for method, path in (("DELETE", "/flows"), ("GET", "/flows/x"), ("POST", "/flows/x/y")):
        assert answer(service, method, path, b"{}")[0] == 404


def test_an_operator_revokes() -> None:
    service = FakeService()
    body = {"kind": "client", "name": "car"}
    assert post(service, "/revocations", body) == (200, {"version": 1})
    assert service.revoked == [("client", "car")]
    assert post(service, "/revocations", {"kind": "topic", "name": "car"})[0] == 400


def test_a_plan_is_adopted() -> None:
    service = FakeService()
    assert post(service, "/plans", {"plan": "plans/tuesday"}) == (200, {"plan_version": 2})
    asked = {"plan": "plans/today", "scenario": "today", "instead_of": 2}
    assert post(service, "/plans", asked) == (200, {"plan_version": 3})
    assert service.adopted == [
        AskedPlan(Path("plans/tuesday")),
        AskedPlan(Path("plans/today"), Path("today"), 2),
    ]


def test_the_plan_in_force_is_told_part_by_part() -> None:
    found = answer(FakeService(), "GET", "/plans/in-force/homes/car%2F7", b"")
    assert found == (200, {"part": "homes", "after": "car/7"})
    found = answer(FakeService(), "GET", "/plans/in-force/brokers/", b"")
    assert found == (200, {"part": "brokers", "after": ""})
    assert answer(FakeService(), "GET", "/plans/in-force/streams/", b"")[0] == 404


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": TOKEN}, {"Authorization": f"Bearer {TOKEN}x"}]
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/clients"), ("GET", "/clients/a")])
def test_without_the_token_nothing_is_said(method: str, path: str, headers: dict[str, str]) -> None:
    status, said = answer(FakeService(), method, path, b"{}", headers)
    assert status == 401
    assert "token" in said["error"]


@pytest.mark.parametrize(
    ("path", "body", "complaint"),
    [
        ("/clients", b"{", "truncated"),
        ("/clients", b'{"client": "\\ud800", "public_key": ""}', "body"),
        ("/clients", {"client": "a"}, "public_key"),
        ("/clients", {"client": 7, "public_key": ""}, "str"),
        ("/clients", {"client": "a", "public_key": "", "home": "e1"}, "home"),
        ("/clients", {"client": "a", "public_key": "xyz"}, "hex digits"),
        ("/clients", {"client": "a", "public_key": "", "x_km": 1}, "x_km and y_km"),
        ("/plans", {"plans": "p"}, "plan"),
        ("/plans", [], "object"),
    ],
)
def test_a_bad_request_is_one_clear_line(path: str, body: Any, complaint: str) -> None:
    status, answer = post(FakeService(), path, body)
    assert status == 400
    assert complaint in answer["error"]
    assert "\n" not in answer["error"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PlanError("client 'a' has no home", file="p/homes.csv"), 400),
        (OutputError("no room on the disk"), 503),
        (TrustError("only an operator's token replaces it"), 403),
        (TooManyError("try again later"), 429),
        (TimeoutError(), 503),
    ],
)
def test_what_goes_wrong_behind_the_desk_is_told(error: Exception, status: int) -> None:
    service = FakeService()
    service.error = error
    for path, body in (("/plans", {"plan": "p"}), ("/clients", {"client": "a", "public_key": ""})):
        code, answer = post(service, path, body)
        assert code == status
        assert str(error) in answer["error"]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/clients/nobody"), ("DELETE", "/clients"), ("GET", "/clients")]
)
def test_what_is_not_there_is_404(method: str, path: str) -> None:
    status, said = answer(FakeService(), method, path, b"")
    assert status == 404
    assert path.rsplit("/", 1)[-1] in said["error"]


def test_a_token_is_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"  {TOKEN}\n")
    assert read_token(tmp_path / "token") == TOKEN


@pytest.mark.parametrize("content", ["", "short", "two words of a secret", "sécret-sécret-sécret"])
def test_a_token_that_cannot_be_used_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match="must hold one word of 16 or more"):
        read_token(tmp_path / "token")


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"token file .*nothing: cannot be read: No such file"):
        read_token(tmp_path / "nothing")


def test_processors_are_set_as_a_whole_and_shown() -> None:
    service = FakeService()
    assert answer(service, "GET", "/processors", b"") == (200, [])
    rules = [
        {"pattern": "a/#", "processor": "threshold", "options": {"limit": 3}},
        {"pattern": "#"},
    ]
    assert answer(service, "PUT", "/processors", json.dumps(rules).encode()) == (
        200,
        {"revision": 7},
    )
    status, shown = answer(service, "GET", "/processors", b"")
    assert status == 200
    assert [(one["pattern"], one["processor"]) for one in shown] == [
        ("a/#", "threshold"),
        ("#", "forward"),
    ]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{}", "cannot be used"),
        (b'[{"pattern": "a", "procesor": "echo"}]', "procesor"),
        (b'[{"pattern": "a/#/b"}]', "'#' stands at the end only"),
        (b'[{"pattern": "a"}, {"pattern": "a"}]', "has two processors"),
        (b'[{"pattern": "a", "processor": "nonsense"}]', "there is no processor 'nonsense'"),
        (b'[{"pattern": "a", "processor": "speeding"}]', "limit_kmh"),
    ],
)
def test_rules_that_cannot_be_followed_change_nothing(body: bytes, said: str) -> None:
    service = FakeService()
    status, found = answer(service, "PUT", "/processors", body)
    assert status == 400
    assert said in found["error"]
    assert service.processors == ()
