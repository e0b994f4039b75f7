"""Products of quantized matrices, by the kernels in native/kernels and by ggml's CPU backend."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind

from gemmachat import bridge
from gemmachat.native import library

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_floats = ctypes.POINTER(ctypes.c_float)


class Kernels:
    """Matrices [rows, bytes of a row] of one type and size, packed for the kernels."""

    def __init__(self, matrices: Sequence[Bytes], kind: Kind, instructions: str | None = None):
        self._n, self._k = len(matrices[0]), columns(matrices[0], kind)
        self._handles = (ctypes.c_void_p * len(matrices))()
        for i, rows in enumerate(matrices):
            handle, data = ctypes.c_void_p(), np.ascontiguousarray(rows)
            name = None if instructions is None else instructions.encode()
            bridge.check(
                library().gc_matrix_new(
                    name, kind, data.ctypes.data, self._k, self._n, ctypes.byref(handle)
                )
            )
            self._handles[i] = handle.value
        self.seconds = 0.0  # of the last product

    def close(self) -> None:
        for handle in self._handles:
            library().gc_matrix_free(handle)

    def multiply(self, x: Floats, threads: int = 1) -> Floats:
        """The products [matrix, row of x, row of the matrix] with rows [m, k] of activations."""
        x = np.ascontiguousarray(x, np.float32)
        out = np.empty((len(self._handles), len(x), self._n), np.float32)
        seconds = ctypes.c_double()
        bridge.check(
            library().gc_matrix_multiply(
                ctypes.cast(self._handles, ctypes.POINTER(ctypes.c_void_p)),
                len(self._handles),
                x.ctypes.data_as(_floats),
                len(x),
                threads,
                out.ctypes.data_as(_floats),
                ctypes.byref(seconds),
            )
        )
        self.seconds = seconds.value
        return out


class Ggml:
    """The same products as a graph on ggml's CPU backend, its weights repacked where it would."""

    def __init__(self, matrices: Sequence[Bytes], kind: Kind, m: int, threads: int = 1) -> None:
        self._lib = _ggml()
        self._n, k = len(matrices[0]), columns(matrices[0], kind)
        self._backend = self._lib.ggml_backend_cpu_init()
        self._lib.ggml_backend_cpu_set_n_threads(self._backend, threads)
        self._weights_context = self._context()
        self._graph_context = self._context()
        weights = [
            self._lib.ggml_new_tensor_2d(self._weights_context, kind, k, self._n) for _ in matrices
        ]
        self._x = self._lib.ggml_new_tensor_2d(self._graph_context, Kind.F32, k, m)
        self._products = [
            self._lib.ggml_mul_mat(self._graph_context, one, self._x) for one in weights
        ]
        self._graph = self._lib.ggml_new_graph(self._graph_context)
        for product in self._products:
            self._lib.ggml_build_forward_expand(self._graph, product)
        plain = self._lib.ggml_backend_get_default_buffer_type(self._backend)
        self._buffers = [
            self._lib.ggml_backend_alloc_ctx_tensors_from_buft(context, buffer_type)
            for context, buffer_type in (
                (self._weights_context, self._repacking(plain)),
                (self._graph_context, plain),
            )
        ]
        for tensor, rows in zip(weights, matrices, strict=True):
            data = np.ascontiguousarray(rows)
            self._lib.ggml_backend_tensor_set(tensor, data.ctypes.data, 0, data.nbytes)

    def close(self) -> None:
        for buffer in self._buffers:
            self._lib.ggml_backend_buffer_free(buffer)
        self._lib.ggml_free(self._graph_context)
        self._lib.ggml_free(self._weights_context)
        self._lib.ggml_backend_free(self._backend)

    def compute(self) -> None:
        """Runs the graph on the activations that `multiply` has set."""
        assert self._lib.ggml_backend_graph_compute(self._backend, self._graph) == 0

    def multiply(self, x: Floats) -> Floats:
        """The products [matrix, row of x, row of the matrix] with rows [m, k] of activations."""
        x = np.ascontiguousarray(x, np.float32)
        self._lib.ggml_backend_tensor_set(self._x, x.ctypes.data, 0, x.nbytes)
        self.compute()
        out = np.empty((len(self._products), len(x), self._n), np.float32)
        for tensor, one in zip(self._products, out, strict=True):
            self._lib.ggml_backend_tensor_get(tensor, one.ctypes.data, 0, one.nbytes)
        return out

    def _context(self) -> Any:
        return self._lib.ggml_init(_InitParams(1 << 20, None, True))

    def _repacking(self, plain: Any) -> Any:
        """The buffer type in which ggml interleaves rows, if this build has it."""
        device = self._lib.ggml_backend_get_device(self._backend)
        registry = self._lib.ggml_backend_dev_backend_reg(device)
        address = self._lib.ggml_backend_reg_get_proc_address(
            registry, b"ggml_backend_dev_get_extra_bufts"
        )
        list_types = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(address)
        found = itertools.takewhile(bool, _pointers(list_types(device)))
        repacking = (one for one in found if self._lib.ggml_backend_buft_name(one) == b"CPU_REPACK")
        return next(repacking, plain)


@contextmanager
def kernels(rows: Bytes, kind: Kind, instructions: str | None = None) -> Iterator[Kernels]:
    """One matrix packed for a kernel."""
    with ExitStack() as stack:
        packed = Kernels([rows], kind, instructions)
        stack.callback(packed.close)
        yield packed


def by_ggml(rows: Bytes, kind: Kind, x: Floats) -> Floats:
    """The product [row of x, row] of one matrix."""
    product = Ggml([rows], kind, len(x))
    try:
        return product.multiply(x)[0]
    finally:
        product.close()


def columns(rows: Bytes, kind: Kind) -> int:
    """The number of weights in a row."""
    block, size = GGML_QUANT_SIZES[kind]
    return rows.shape[1] // size * block


def _pointers(array: Any) -> Iterator[Any]:
    return (array[i] for i in itertools.count())


class _InitParams(ctypes.Structure):
    """ggml_init_params of ggml.h."""

    _fields_ = (
        ("mem_size", ctypes.c_size_t),
        ("mem_buffer", ctypes.c_void_p),
        ("no_alloc", ctypes.c_bool),
    )


@functools.cache
def _ggml() -> ctypes.CDLL:
    # What libgemmachat is linked with is found through it.
    found = ctypes.CDLL(library()._name)
    pointer, integer, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    for name, result, arguments in (
        ("ggml_init", pointer, [_InitParams]),
        ("ggml_free", None, [pointer]),
        ("ggml_new_tensor_2d", pointer, [pointer, integer, ctypes.c_int64, ctypes.c_int64]),
        ("ggml_mul_mat", pointer, [pointer, pointer, pointer]),
        ("ggml_new_graph", pointer, [pointer]),
        ("ggml_build_forward_expand", None, [pointer, pointer]),
        ("ggml_backend_cpu_init", pointer, []),
        ("ggml_backend_cpu_set_n_threads", None, [pointer, integer]),
        ("ggml_backend_free", None, [pointer]),
        ("ggml_backend_get_default_buffer_type", pointer, [pointer]),
        ("ggml_backend_get_device", pointer, [pointer]),
        ("ggml_backend_dev_backend_reg", pointer, [pointer]),
        ("ggml_backend_reg_get_proc_address", pointer, [pointer, ctypes.c_char_p]),
        ("ggml_backend_buft_name", ctypes.c_char_p, [pointer]),
        ("ggml_backend_alloc_ctx_tensors_from_buft", pointer, [pointer, pointer]),
        ("ggml_backend_buffer_free", None, [pointer]),
        ("ggml_backend_tensor_set", None, [pointer, pointer, size, size]),
        ("ggml_backend_tensor_get", None, [pointer, pointer, size, size]),
        ("ggml_backend_graph_compute", integer, [pointer, pointer]),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found
