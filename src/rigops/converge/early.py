"""Imported before anything else by the commands that converge hosts.

gevent has to replace the standard library's blocking parts before a lock, thread or connection
exists: imported late, it leaves locks behind that never wake up.
"""

from gevent import monkey

monkey.patch_all()
