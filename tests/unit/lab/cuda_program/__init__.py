"""A program as others write them: ctypes on libcuda.so.1, nothing of the lab or of rigops."""
