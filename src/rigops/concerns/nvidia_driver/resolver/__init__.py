"""Which NVIDIA driver a machine gets, as which packages, from where, or why none. Pure.

`driver_facts` has everything that decides, and `answer` is a function of it; `options` has every
driver that would fit, and the recommended one. Below them `resolve` brings together what the
machine is, what is declared and what the sources offer.
"""
