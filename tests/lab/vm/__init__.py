"""Whole machines under QEMU, with firmware, GRUB, a kernel and an IOMMU of their own."""
