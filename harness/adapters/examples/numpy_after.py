#!/usr/bin/env python3
"""numpy_before.py after a change that is right and gives other bits: K blocks from the last to the first."""
import numpy_before
from moeproof_executor import serve

numpy_before.blocks_of = lambda k: reversed(range(k // 128))

if __name__ == "__main__":
    serve()
