"""The nccl-tests programs."""
