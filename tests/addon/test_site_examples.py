"""Commands and Python examples on the pages: the current version accepts them, and the references are complete."""

from __future__ import annotations

import argparse
import inspect
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import bpy
import pytest

pytestmark = pytest.mark.bpy
Load = Callable[[str], ModuleType]
ROOT = Path(__file__).parents[2]
PAGES = [
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if "decisions" not in page.parts),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tools/zip_readme.md")),
]
# Labels of Blender, Flamenco and game engines.
OTHER_LABELS = {
    *("Edit", "Preferences", "Get Extensions", "⌄", "Install from Disk", "Online Manual", "Sync", "NLA Strips"),
    *("Head", "Repeat"),
    *("All Actions", "Custom AABB", "Flamenco", "Mesh", "Output", "Simplify"),
}
API_PAGE = (ROOT / "docs" / "reference" / "python-api.md").read_text(encoding="utf-8")


def commands() -> Iterator[tuple[str, str]]:
    """Yield page and arguments of each command of DampSim, in blocks and in code within sentences."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for arguments in re.findall(r"--command dampsim ([^`\n]+)|`dampsim ([a-z][^`]*)`", text):
            command = "".join(arguments)
            # A placeholder for any command, and an engine that a script outside of the zip adds.
            if not command.startswith("COMMAND") and "--engine dask" not in command:
                yield page.stem, command


def api_calls() -> Iterator[tuple[str, str]]:
    """Yield page and text of each call of the API in code within sentences."""
    for page in PAGES:
        yield from (
            (page.stem, call) for call in re.findall(r"`api\.(\w+\([^`]*\))`", page.read_text(encoding="utf-8"))
        )


def parsers(load: Load) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    found: dict[str, argparse.ArgumentParser] = {}
    cli = load("dampsim_addon.cli")
    for module in (cli.bake_commands, cli.landing_commands, cli.search_commands, cli.farm_commands):
        group = argparse.ArgumentParser().add_subparsers()
        module.add_to(group)
        found |= group.choices
    return found


@pytest.mark.parametrize(("page", "command"), commands())
def test_command_is_accepted(load: Load, page: str, command: str) -> None:
    options = load("dampsim_addon.cli")._parse_arguments(shlex.split(command, comments=True))
    assert options.command == command.split(maxsplit=1)[0]


def test_wrong_command_is_refused(load: Load) -> None:
    """The pages have commands, and one with an unknown option fails."""
    assert len(list(commands())) > 12
    with pytest.raises(load("dampsim_addon.cli.options").UsageError):
        load("dampsim_addon.cli")._parse_arguments(["bake", "--obejct", "Tail"])


def test_every_option_is_documented(load: Load) -> None:
    """The reference of the command line and the guide of farms name all commands and options."""
    pages = [ROOT / "docs" / "reference" / "command-line.md", ROOT / "docs" / "how-to" / "run-a-farm.md"]
    named = set(
        re.findall(r"(?<![\w-])--[a-z-]+|`[a-z]+`", "".join(page.read_text(encoding="utf-8") for page in pages))
    )
    missing = [
        f"{command} {option}"
        for command, parser in parsers(load).items()
        for option in (f"`{command}`", *parser._option_string_actions)
        if option not in {"-h", "--help"} and option not in named
    ]
    assert missing == []


@pytest.mark.parametrize(("page", "call"), api_calls())
def test_api_call_fits_signature(load: Load, page: str, call: str) -> None:
    name, _, arguments = call.partition("(")
    function = getattr(load("dampsim_addon.api"), name)
    positional = [one for one in re.split(r",(?![^(\[]*[)\]])", arguments[:-1]) if "=" not in one and one.strip()]
    inspect.signature(function).bind(*positional, **dict.fromkeys(re.findall(r"(\w+)=", arguments)))


def test_api_page_lists_signatures(load: Load) -> None:
    """The table of functions has the public functions, with their parameters and defaults."""
    listed = dict(re.findall(r"(?m)`(\w+)(\([^`]*\))`(?=[^|\n]*\| [A-Za-z])", API_PAGE.partition("## Properties")[0]))
    module = load("dampsim_addon.api")
    public = {
        name: function
        for name, function in vars(module).items()
        if inspect.isfunction(function) and function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert set(listed) == set(public)
    for name, function in public.items():
        plain = re.sub(r": [^=,()]*(\[[^=]*?\])?(?= = |, |\)|$)", "", listed[name])
        wanted = [(one.name, one.default) for one in inspect.signature(function).parameters.values()]
        made = [
            (one.name, one.default)
            for one in inspect.signature(eval(f"lambda {plain.strip('()')}: 0")).parameters.values()
        ]
        assert made == wanted, name


def test_operator_calls_have_known_options() -> None:
    found = re.findall(r"bpy\.ops\.dampsim\.(\w+)\((.*)\)", API_PAGE)
    assert len(found) > 4
    for name, arguments in found:
        options = {one.identifier for one in getattr(bpy.ops.dampsim, name).get_rna_type().properties}
        assert set(re.findall(r"(\w+)=", arguments)) <= options, name


def instructed_labels() -> Iterator[tuple[str, str]]:
    """Yield page and label of each button, setting or choice that an instruction of a page names."""
    label = r"\*[^*\n]+(?:\n[^*\n]+)?\*"
    verbs = "[Pp]ress(?:es)?|[Bb]uttons? reads?|[Cc]hoose|[Ss]witch(?:es)?|[Ss]et|[Rr]aise|[Ll]ower|[Oo]pen|[Uu]se"
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in re.findall(rf"\b(?:{verbs}) ((?:{label}(?:, or |, | and | or )?)+)", text):
            for path in re.findall(r"\*([^*]+)\*", found):
                yield from ((page.stem, part) for part in re.split(" ?› ?", " ".join(path.split())))


def test_instructions_name_existing_labels(load: Load) -> None:
    """Labels are texts of the interface, whose catalogues have them all, or belong to another program."""
    catalogue = load("dampsim_addon.translations.catalogue")
    texts = {entry.message for entry in catalogue.read_catalogue(catalogue.FOLDER / "de.po")}
    forms = [
        re.compile(re.sub(r"\\\{\w+\\\}", ".+", re.escape(text)))
        for text in texts
        if catalogue.PLACEHOLDER.search(text) and re.search(r"\w", catalogue.PLACEHOLDER.sub("", text))
    ]
    labels = list(instructed_labels())
    assert len(labels) > 100
    unknown = {
        label
        for _, label in labels
        if not {label, f"{label}…"} & texts and not any(form.fullmatch(label) for form in forms)
    }
    assert unknown == OTHER_LABELS


@pytest.mark.slow
def test_first_api_example_runs(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example of the Python API bakes and exports a ball without an error."""
    bpy.ops.wm.read_homefile(use_empty=True, use_factory_startup=True)
    monkeypatch.chdir(tmp_path)
    code = API_PAGE.split("```python\n")[1].split("```")[0]
    scope: dict[str, Any] = {}
    exec(code.replace("bl_ext.user_default.dampsim", load("").__name__), scope)
    assert re.search(r"\d+ keys, largest error [\d.e-]+ m\n", capsys.readouterr().out)
    assert (tmp_path / "exports" / "ball.glb").stat().st_size > 0
