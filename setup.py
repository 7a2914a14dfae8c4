"""Puts the starter set (`coevo init`) into the wheel as package data; everything else is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # a build in isolation does not see the project's own folder

from coevo.starter import collect  # noqa: E402


class BuildWithStarter(build_py):
    """Copies agents/, skills/ and the experiment files to coevo/_starter in the build."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for name, source in collect(ROOT).items():
            target = Path(self.build_lib, "coevo", "_starter", name)
            self.mkpath(str(target.parent))
            self.copy_file(str(source), str(target))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        built = Path(self.build_lib, "coevo", "_starter")
        return [*super().get_outputs(include_bytecode), *(str(built / name) for name in collect(ROOT))]


setup(cmdclass={"build_py": BuildWithStarter})
