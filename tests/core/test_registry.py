"""Names to classes: found by scanning a package, unknown ones told with the known ones."""

import sys
from pathlib import Path

import pytest

from fed_core.errors import ConfigError, UnknownNameError
from fed_core.registry import Registry, check_name


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "plugs_under_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("from fed_core.registry import Registry\nplugs = Registry('plug', __name__)\n")
    entry = "from plugs_under_test import plugs\n\n@plugs.register({name!r})\nclass Plug:\n    pass\n"
    (folder / "zinc.py").write_text(entry.format(name="zinc"))
    (folder / "brass.py").write_text(entry.format(name="brass"))
    (folder / "_draft.py").write_text("raise RuntimeError('private modules are not imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder.name
    for name in [name for name in sys.modules if name.startswith(folder.name)]:
        del sys.modules[name]


def test_modules_register_themselves_on_first_use(package: str) -> None:
    plugs = __import__(package).plugs
    assert f"{package}.zinc" not in sys.modules
    assert plugs.names() == ["brass", "zinc"]
    assert plugs.get("zinc").__module__ == f"{package}.zinc"


def test_an_unknown_name_is_told_with_the_known_ones(package: str) -> None:
    plugs = __import__(package).plugs
    with pytest.raises(UnknownNameError, match="^no plug is called 'lead'; known: brass, zinc$") as err:
        plugs.get("lead")
    assert isinstance(err.value, ConfigError)


def test_a_name_is_given_once() -> None:
    plugs: Registry[type] = Registry("plug", "fed_core.clustering")
    plugs.register("zinc")(int)
    with pytest.raises(ValueError, match="plug 'zinc' is registered twice"):
        plugs.register("zinc")(str)
    assert plugs.get("zinc") is int


def test_a_module_that_cannot_be_imported_is_not_forgotten(package: str, tmp_path: Path) -> None:
    (tmp_path / package / "broken.py").write_text("import no_such_library\n")
    plugs = __import__(package).plugs
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_library"):
            plugs.get("zinc")


def test_names_are_checked_without_importing_a_module(package: str) -> None:
    folder = Path(__import__(package).__path__[0])
    (folder / "tin.py").write_text('raise RuntimeError("imported")\n@plugs.register("tin")\ndef tin(): ...\n')
    check_name("plug", "tin", package)
    with pytest.raises(UnknownNameError, match="^no plug is called 'lead'; known: brass, tin, zinc$"):
        check_name("plug", "lead", package)
    check_name("plug", "lead", "no_such_package")


def test_the_names_that_are_read_are_those_that_are_registered() -> None:
    from fed_core.tasks.base import tasks
    from fed_models import networks

    for kind, registry, package in (("task", tasks, "fed_core.tasks"), ("network", networks, "fed_models")):
        with pytest.raises(UnknownNameError) as told:
            check_name(kind, "nope", package)
        assert str(told.value) == f"no {kind} is called 'nope'; known: {', '.join(registry.names())}"
