"""Puts the command into a wheel: $MOE_WHEEL_BINARY, under the tag $MOE_WHEEL_TAG. Without them the wheel is without it."""

import os

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    def initialize(self, version, build_data):
        binary = os.environ.get("MOE_WHEEL_BINARY")
        if binary:
            name = "moe.exe" if binary.endswith(".exe") else "moe"
            build_data["pure_python"] = False
            build_data["tag"] = "py3-none-" + os.environ["MOE_WHEEL_TAG"]
            build_data["force_include"][os.path.abspath(binary)] = "moe_regression/bin/" + name
