"""Progress and status texts of modal operators."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from types import ModuleType, SimpleNamespace

import bpy
import pytest
from scenes import new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def test_esc_report_of_each_operator(load: Load) -> None:
    modal = load("dampsim_addon.work.operators")
    waiting, jobs = [modal.ModalJob], []
    while waiting:
        job = waiting.pop()
        waiting += job.__subclasses__()
        if hasattr(job, "bl_idname"):
            jobs.append(job)
    assert len(jobs) == 9
    new_scene()
    instance = SimpleNamespace(_exported=(), _objects=lambda context: [], frame=12)
    for job in jobs:
        _, ended = job.completion_messages(instance, bpy.context)
        assert ("nothing was changed" in ended) == (job.ended_by_esc == "stops and changes nothing"), job
        assert ("Resume" in ended) == ("keeps the finished frames" in job.ended_by_esc), job


def test_progress_text_and_esc_hint(load: Load) -> None:
    modal, step = load("dampsim_addon.work.operators"), load("dampsim_addon.work.steps").Step
    progress, status = SimpleNamespace(), []
    context = SimpleNamespace(
        window_manager=SimpleNamespace(dampsim_progress=progress),
        workspace=SimpleNamespace(status_text_set=status.append),
    )
    job = SimpleNamespace(_rate_estimate=modal.RateEstimate(), ended_by_esc="stops and changes nothing")
    modal.ModalJob._show(job, context, step(26, 1296, "Generation 1 of 5"))
    assert progress.text == "Generation 1 of 5, 26 / 1296"
    assert status == ["DampSim: Generation 1 of 5, 26 / 1296    ESC stops and changes nothing"]
    modal.ModalJob._show(job, context, step(26, 120, "Simulating"))
    assert progress.text == "Simulating 26 / 120"


def test_preparation_progress_within_stage(load: Load) -> None:
    """A stage with a known progress has its own bar; the thread ends at its next report after ESC."""
    prepare = load("dampsim_addon.jobs.prepare")
    stages = prepare._Stages()
    assert stages.step(4).text == "Preparing"
    stages.report("the simulation mesh of Flag", 0.0)
    stages.report("the hanging shape", 0.0)
    found = stages.step(4)
    assert (found.completed, found.total, found.text) == (1, 4, "Preparing: the hanging shape")
    stages.report("the hanging shape", 0.25)
    found = stages.step(4)
    assert (found.completed, found.total) == (25, 100)
    stages.is_abandoned = True
    with pytest.raises(prepare._Abandoned):
        stages.report("the hanging shape", 0.5)


def test_closed_preparation_abandons_its_thread(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare = load("dampsim_addon.jobs.prepare")
    reached, closed, ended = Event(), Event(), Event()

    class Endless:
        def __init__(self, *given: object, report_progress: Callable[[str, float], None], **named: object) -> None:
            reached.set()
            assert closed.wait(60.0)
            try:
                report_progress("the hanging shape", 0.5)
            finally:
                ended.set()
            raise AssertionError("not abandoned")

    monkeypatch.setattr(prepare, "Simulation", Endless)
    work = prepare.prepare_simulation(SimpleNamespace(first=1, bodies=(), sample=lambda frame: None))
    while not reached.is_set():
        next(work)
    work.close()
    closed.set()
    assert ended.wait(60.0)
