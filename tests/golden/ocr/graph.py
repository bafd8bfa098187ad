"""Compute an ONNX graph in double precision with numpy: the operators that a PP-OCR recogniser uses.

Plain and slow on purpose. It knows nothing of attention, so what it says about a block is independent
of the code that serves the block.
"""
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from onnx import helper, numpy_helper

OPERATORS = {}


def operator(function):
    OPERATORS[function.__name__] = function
    return function


def attributes(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def arithmetic(a):
    """Floats are doubles here; integers (shapes) stay what they are."""
    return a.astype(np.float64) if a.dtype.kind == "f" else a


@operator
def Constant(value):
    return arithmetic(numpy_helper.to_array(value))


OPERATORS.update(
    Add=lambda a, b: a + b,
    Sub=lambda a, b: a - b,
    Mul=lambda a, b: a * b,
    Div=lambda a, b: a / b,
    Pow=lambda a, b: a**b,
    Sqrt=np.sqrt,
    MatMul=np.matmul,
    Relu=lambda x: np.maximum(x, 0),
    Sigmoid=lambda x: 1 / (1 + np.exp(-x)),
    Shape=lambda x: np.array(x.shape, np.int64),
    Transpose=lambda x, perm: x.transpose(perm),
    Concat=lambda *xs, axis: np.concatenate(xs, axis),
    Squeeze=lambda x, axes: np.squeeze(x, tuple(axes)),
    GlobalAveragePool=lambda x: x.mean((2, 3), keepdims=True),
    ReduceMean=lambda x, axes, keepdims=1: x.mean(tuple(axes), keepdims=bool(keepdims)),
)


@operator
def Clip(x, min, max):
    return np.clip(x, min, max)


@operator
def HardSigmoid(x, alpha=0.2, beta=0.5):
    return np.clip(alpha * x + beta, 0, 1)


@operator
def Cast(x, to):
    return x.astype(np.int64) if to in (6, 7) else x.astype(np.float64)


@operator
def Softmax(x, axis):
    exponents = np.exp(x - x.max(axis, keepdims=True))
    return exponents / exponents.sum(axis, keepdims=True)


@operator
def Reshape(x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape)])


@operator
def Slice(x, starts=None, ends=None, axes=None):
    index = [slice(None)] * x.ndim
    for axis, start, end in zip(axes, starts, ends):
        index[axis] = slice(start, end)
    return x[tuple(index)]


@operator
def BatchNormalization(x, scale, bias, mean, variance, epsilon=1e-5, momentum=0.9):
    column = (1, -1) + (1,) * (x.ndim - 2)
    factor = scale / np.sqrt(variance + epsilon)
    return x * factor.reshape(column) + (bias - mean * factor).reshape(column)


def windows(x, kernel, strides, pads):
    """[batch, channels, rows, columns, kernel rows, kernel columns]"""
    padded = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    return sliding_window_view(padded, tuple(kernel), (2, 3))[:, :, :: strides[0], :: strides[1]]


@operator
def AveragePool(x, kernel_shape, strides, pads, count_include_pad=0):
    assert not any(pads), "padding is not known here"
    return windows(x, kernel_shape, strides, pads).mean((4, 5))


@operator
def Conv(x, weight, bias=None, kernel_shape=None, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1):
    assert list(dilations) == [1, 1], "dilation is not known here"
    view = windows(x, weight.shape[2:], strides, pads)
    n_in, n_out = weight.shape[1], weight.shape[0] // group
    parts = [
        np.tensordot(
            view[:, g * n_in : (g + 1) * n_in], weight[g * n_out : (g + 1) * n_out], ((1, 4, 5), (1, 2, 3))
        ).transpose(0, 3, 1, 2)
        for g in range(group)
    ]
    y = np.concatenate(parts, 1)
    return y if bias is None else y + bias.reshape(1, -1, 1, 1)


def run(graph, feeds, rounded=()):
    """Every value of the graph by name. Values named in `rounded` are cut to single precision as they
    arise, so that what follows is computed from the very numbers that a client would send."""
    values = {i.name: arithmetic(numpy_helper.to_array(i)) for i in graph.initializer}
    values.update(feeds)
    for node in graph.node:
        inputs = [values[name] if name else None for name in node.input]
        result = OPERATORS[node.op_type](*inputs, **attributes(node))
        if node.output[0] in rounded:
            result = result.astype(np.float32).astype(np.float64)
        values[node.output[0]] = result
    return values
