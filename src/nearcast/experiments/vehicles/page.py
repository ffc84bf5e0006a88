"""The report page of a run of vehicles."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nearcast.experiments.vehicles.run import Drive, VideoFrame
from nearcast.pictures.report import Cell, Film, Picture, Section, Table, Tile, write_report
from nearcast.pictures.vehicle_map import AlertMark, Scene, draw_scene, write_film
from nearcast.wire.message_class import MESSAGE_CLASSES

__all__ = ["vehicle_sections", "write_vehicle_page"]

_SHOWN_S = 12
"""How long an alert stays on the map."""


def write_vehicle_page(drive: Drive, how: str, command: str, folder: Path) -> Path:
    """Write report.html, vehicles.gif and vehicles.png into a folder; return the page."""
    page = folder / "report.html"
    found = drive.found
    tiles = [
        Tile("Vehicles", found["vehicles"], f"{found['seconds'] // 60} min"),
        Tile("Hand-overs", found["handovers"], f"past {found['edges']} edge servers"),
        Tile("Alerts", found["alerts"], f"{found['delivered']:,} of {found['expected']:,} heard"),
        Tile(
            "False / missed",
            f"{found['false']} / {found['missed']}",
            "precision and recall "
            + " and ".join(
                "-" if one is None else f"{one:.4f}"
                for one in (found["precision"], found["recall"])
            ),
        ),
        Tile("Lost / doubled", f"{found['lost']} / {found['doubled']}"),
    ]
    write_report(
        page,
        "Vehicles in a city of edge servers",
        vehicle_sections(drive, folder, command),
        tiles=tiles,
        lead=how,
    )
    return page


def vehicle_sections(
    drive: Drive, folder: Path, command: str, title: str = "The city", text: str = ""
) -> list[Section]:
    """Return the sections of the page; picture and film go into the folder too."""
    scenes = [_scene(drive, frame) for frame in drive.frames]
    busiest = max(scenes, key=lambda one: (len(one.alerts), one.second))
    note = (
        f"second {busiest.second}; lines: what each server covers; circles: areas of alerts of "
        f"the last {_SHOWN_S} s"
    )
    figure = draw_scene(drive.field, drive.edges, busiest, note)
    figure.savefig(folder / "vehicles.png", dpi=110)
    film = folder / "vehicles.gif"
    write_film(film, drive.field, drive.edges, scenes)
    return [
        Section(
            title,
            text,
            pictures=[
                Picture(figure, "a map of vehicles, each in the colour of its home"),
                Film(film.read_bytes(), "the same as a film: vehicles drive, homes change"),
            ],
            command=command,
        ),
        Section(
            "Alerts",
            text="Who should hear an alert was found by looking at all vehicles one by one "
            f"({drive.found['checked_by']}), from where each of them had last reported to be when "
            "it was told.",
            tables=[Table(_alert_rows(drive)), Table(_deadline_rows(drive.found))],
        ),
    ]


def _scene(drive: Drive, frame: VideoFrame) -> Scene:
    marks = [
        AlertMark(one.kind, one.x_km, one.y_km, one.radius_km)
        for one in drive.alerts
        if 0 <= frame.second - one.second <= _SHOWN_S
    ]
    return Scene(frame.second, frame.x_km, frame.y_km, frame.homes, marks)


def _alert_rows(drive: Drive) -> Sequence[dict[str, Cell]]:
    kinds = sorted({one.kind for one in drive.alerts})
    rows: list[dict[str, Cell]] = []
    for kind in kinds:
        some = [one for one in drive.alerts if one.kind == kind]
        rows.append(
            {
                "kind": kind,
                "alerts": len(some),
                "vehicles in their areas": sum(len(one.expected) for one in some),
                "told": sum(len(one.heard.keys() & one.expected) for one in some),
                "told though outside": sum(len(one.outside) for one in some),
                "came later and were told": sum(len(one.entered) for one in some),
            }
        )
    return rows


def _deadline_rows(found: dict[str, Any]) -> Sequence[dict[str, Cell]]:
    return [
        {
            "class": name,
            "deadline ms": MESSAGE_CLASSES[name].deadline_ms,
            "in time": f"{100 * share:.2f} %",
            "p50 ms": round(found["delay_ms"][name]["p50"], 1),
            "p99 ms": round(found["delay_ms"][name]["p99"], 1),
        }
        for name, share in found["in_deadline"].items()
    ]
