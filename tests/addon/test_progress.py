"""Progress and status texts of modal operators."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import bpy
import pytest
from scenes import new_scene

pytestmark = [pytest.mark.bpy, pytest.mark.versions]
Load = Callable[[str], ModuleType]


def test_esc_report_of_each_operator(load: Load) -> None:
    modal = load("dampsim_addon.work.modal")
    waiting, jobs = [modal.ModalJob], []
    while waiting:
        job = waiting.pop()
        waiting += job.__subclasses__()
        if hasattr(job, "bl_idname"):
            jobs.append(job)
    assert len(jobs) == 6
    new_scene()
    for job in jobs:
        _, ended = job.completion_messages(SimpleNamespace(_exported=()), bpy.context)
        assert ("nothing was changed" in ended) == (job.ended_by_esc == "stops and changes nothing"), job
        assert ("Resume" in ended) == ("keeps the finished frames" in job.ended_by_esc), job


def test_progress_text_and_esc_hint(load: Load) -> None:
    modal, step = load("dampsim_addon.work.modal"), load("dampsim_addon.work.steps").Step
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
