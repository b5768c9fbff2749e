"""Which NVIDIA driver a machine gets, as which packages, from where, or why none. Pure.

`offers` is what its sources have, `machine` what it is, `request` what was declared; `resolve`
brings them together, and `closure` names every package of the answer in its exact version.
"""
