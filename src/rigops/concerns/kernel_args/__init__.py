"""kernel_args: arguments of the kernel, in every bootloader's configuration."""
