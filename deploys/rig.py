"""All that a rig should be: every concern, in order."""

from pyinfra import local

from rigops import assets

_deploys = assets.find("deploys")

# A line each: by their lines pyinfra puts the operations of several hosts in order.
local.include(str(_deploys / "base.py"))
local.include(str(_deploys / "nvidia_driver.py"))
local.include(str(_deploys / "driver_modules.py"))
local.include(str(_deploys / "container_toolkit.py"))
local.include(str(_deploys / "kernel_args.py"))
local.include(str(_deploys / "acs.py"))
local.include(str(_deploys / "gpu_tuning.py"))
local.include(str(_deploys / "cpu_tuning.py"))
local.include(str(_deploys / "thermal_guard.py"))
local.include(str(_deploys / "snapshots.py"))
local.include(str(_deploys / "borg.py"))
local.include(str(_deploys / "monitoring.py"))
