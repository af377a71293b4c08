"""The package: what it exports, what it needs, and that its two configuration files agree."""

from __future__ import annotations

import configparser
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import gaq_middleware

ROOT = Path(__file__).parent.parent


def test_everything_exported_exists_and_is_documented() -> None:
    """Each public name is there, is sorted, and has a docstring."""
    names = gaq_middleware.__all__

    assert names == sorted(names)
    assert all(getattr(gaq_middleware, name).__doc__ for name in names if name != "Identity")


@pytest.mark.parametrize("module", ["gaq_middleware.asgi", "gaq_middleware.wsgi"])
def test_a_face_needs_no_extra(module: str) -> None:
    """Importing a face loads none of the packages that only extras bring."""
    extras = "{'flask', 'django', 'uvicorn', 'waitress', 'redis', 'celery'}"
    code = f"import sys, {module}; assert not {extras} & set(sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)

    assert done.returncode == 0


def test_setup_cfg_holds_the_import_contracts_and_nothing_of_the_package() -> None:
    """Else setuptools would drop the dependencies of pyproject.toml silently."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")

    assert config.sections()
    assert all(section.startswith("importlinter") for section in config.sections())


def test_the_types_are_shipped() -> None:
    """py.typed stands beside the code (PEP 561)."""
    assert (Path(gaq_middleware.__file__).parent / "py.typed").is_file()


def test_the_version_is_that_of_the_distribution() -> None:
    """One version, told in one place."""
    try:
        installed = importlib.metadata.version("gaq-middleware")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the package is not installed, only on the path")

    assert installed == gaq_middleware.__version__
