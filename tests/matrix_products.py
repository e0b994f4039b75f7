"""Products of quantized matrices, by the kernels in native/kernels and by ggml's CPU backend."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.constants import GGMLQuantizationType as Kind

from gemmachat import bridge
from gemmachat.native import library

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

# The types whose rows ggml interleaves on processors with AVX2.
REPACKED = (Kind.Q4_0, Kind.Q4_K, Kind.IQ4_NL)

_floats = ctypes.POINTER(ctypes.c_float)


class Kernels:
    """Matrices [rows, bytes of a row] of one type and size, packed for the kernels."""

    def __init__(self, matrices: Sequence[Bytes], kind: Kind, instructions: str | None = None):
        self._n, self._k = len(matrices[0]), columns(matrices[0], kind)
        self.handles = (ctypes.c_void_p * len(matrices))()
        for i, rows in enumerate(matrices):
            handle, data = ctypes.c_void_p(), np.ascontiguousarray(rows)
            name = None if instructions is None else instructions.encode()
            bridge.check(
                library().gc_matrix_new(
                    name, kind, data.ctypes.data, self._k, self._n, ctypes.byref(handle)
                )
            )
            self.handles[i] = handle.value
        self.seconds = 0.0  # of the last product

    def close(self) -> None:
        for handle in self.handles:
            library().gc_matrix_free(handle)

    def multiply(self, x: Floats, threads: int = 1) -> Floats:
        """The products [matrix, row of x, row of the matrix] with rows [m, k] of activations."""
        x = np.ascontiguousarray(x, np.float32)
        out = np.empty((len(self.handles), len(x), self._n), np.float32)
        seconds = ctypes.c_double()
        bridge.check(
            library().gc_matrix_multiply(
                ctypes.cast(self.handles, ctypes.POINTER(ctypes.c_void_p)),
                len(self.handles),
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
    """The same products as a graph on ggml's CPU backend, its weights repacked where it would.

    `widths` are the numbers of rows of activations that may be multiplied.
    """

    def __init__(
        self, matrices: Sequence[Bytes], kind: Kind, widths: Sequence[int], threads: int = 1
    ) -> None:
        self._lib = _ggml()
        self._n, k = len(matrices[0]), columns(matrices[0], kind)
        self._backend = self._lib.ggml_backend_cpu_init()
        self._lib.ggml_backend_cpu_set_n_threads(self._backend, threads)
        self._plain = self._lib.ggml_backend_get_default_buffer_type(self._backend)
        self._contexts: list[Any] = []
        self._buffers: list[Any] = []
        context = self._context()
        weights = [self._lib.ggml_new_tensor_2d(context, kind, k, self._n) for _ in matrices]
        self._allocate(context, self._repacking() if kind in REPACKED else self._plain)
        for tensor, rows in zip(weights, matrices, strict=True):
            data = np.ascontiguousarray(rows)
            self._lib.ggml_backend_tensor_set(tensor, data.ctypes.data, 0, data.nbytes)
        self._graphs = {m: self._graph(weights, k, m) for m in widths}

    def close(self) -> None:
        for buffer in self._buffers:
            self._lib.ggml_backend_buffer_free(buffer)
        for context in self._contexts:
            self._lib.ggml_free(context)
        self._lib.ggml_backend_free(self._backend)

    def set(self, x: Floats) -> None:
        """Sets rows [m, k] of activations."""
        data = np.ascontiguousarray(x, np.float32)
        tensor = self._graphs[len(x)].x
        self._lib.ggml_backend_tensor_set(tensor, data.ctypes.data, 0, data.nbytes)

    def compute(self, m: int) -> None:
        """Multiplies the m rows that were set last."""
        assert self._lib.ggml_backend_graph_compute(self._backend, self._graphs[m].graph) == 0

    def multiply(self, x: Floats) -> Floats:
        """The products [matrix, row of x, row of the matrix] with rows [m, k] of activations."""
        self.set(x)
        self.compute(len(x))
        products = self._graphs[len(x)].products
        out = np.empty((len(products), len(x), self._n), np.float32)
        for tensor, one in zip(products, out, strict=True):
            self._lib.ggml_backend_tensor_get(tensor, one.ctypes.data, 0, one.nbytes)
        return out

    def _graph(self, weights: Sequence[Any], k: int, m: int) -> _Graph:
        context = self._context()
        x = self._lib.ggml_new_tensor_2d(context, Kind.F32, k, m)
        products = [self._lib.ggml_mul_mat(context, one, x) for one in weights]
        graph = self._lib.ggml_new_graph(context)
        for product in products:
            self._lib.ggml_build_forward_expand(graph, product)
        self._allocate(context, self._plain)
        return _Graph(graph, x, products)

    def _context(self) -> Any:
        self._contexts.append(self._lib.ggml_init(_InitParams(1 << 20, None, True)))
        return self._contexts[-1]

    def _allocate(self, context: Any, buffer_type: Any) -> None:
        self._buffers.append(
            self._lib.ggml_backend_alloc_ctx_tensors_from_buft(context, buffer_type)
        )

    def _repacking(self) -> Any:
        """The buffer type in which ggml interleaves rows, if this build has it."""
        device = self._lib.ggml_backend_get_device(self._backend)
        registry = self._lib.ggml_backend_dev_backend_reg(device)
        address = self._lib.ggml_backend_reg_get_proc_address(
            registry, b"ggml_backend_dev_get_extra_bufts"
        )
        list_types = ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)(address)
        types = list_types(device)
        found = itertools.takewhile(bool, (types[i] for i in itertools.count()))
        repacking = (one for one in found if self._lib.ggml_backend_buft_name(one) == b"CPU_REPACK")
        return next(repacking, self._plain)


class _Graph(NamedTuple):
    """A product of every matrix with the same activations."""

    graph: Any
    x: Any
    products: list[Any]


@contextmanager
def kernels(rows: Bytes, kind: Kind, instructions: str | None = None) -> Iterator[Kernels]:
    """One matrix packed for a kernel."""
    with ExitStack() as stack:
        packed = Kernels([rows], kind, instructions)
        stack.callback(packed.close)
        yield packed


def by_ggml(rows: Bytes, kind: Kind, x: Floats) -> Floats:
    """The product [row of x, row] of one matrix."""
    product = Ggml([rows], kind, [len(x)])
    try:
        return product.multiply(x)[0]
    finally:
        product.close()


def columns(rows: Bytes, kind: Kind) -> int:
    """The number of weights in a row."""
    block, size = GGML_QUANT_SIZES[kind]
    return rows.shape[1] // size * block


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
