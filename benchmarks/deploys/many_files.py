"""Fifteen files, five units, and nothing else of this concern: 21 operations."""

from rigops.ownership.owned_files import owned_file, owned_unit, undo_undeclared

_CONCERN = "bench"

for _number in range(1, 16):
    owned_file(
        name=f"File {_number}",
        concern=_CONCERN,
        path=f"/etc/rigops-bench-{_number:02}.conf",
        content=f"# For a benchmark.\nnumber = {_number}\n",
    )

for _number in range(1, 6):
    owned_unit(
        name=f"Unit {_number}",
        concern=_CONCERN,
        unit=f"rigops-bench-{_number:02}.service",
        content=f"""\
[Unit]
Description=Nothing, for a benchmark ({_number})

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true

[Install]
WantedBy=multi-user.target
""",
    )

undo_undeclared(name="Nothing else", concern=_CONCERN)
