"""Lets torchvision be imported beside a PyTorch for CPUs.

Its wheel is built for CUDA, so the operators in it do not load there. Yet its import describes two of them to PyTorch,
which then must know them. They are declared here, just before the first import of torchvision, and never called.
"""

import sys
from importlib.abc import MetaPathFinder

OPERATORS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)

declared = []  # A declaration ends with its library.


class Declaration(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision":
            sys.meta_path.remove(self)
            from torch.library import Library

            library = Library("torchvision", "DEF")
            for operator in OPERATORS:
                library.define(operator)
            declared.append(library)


sys.meta_path.insert(0, Declaration())
