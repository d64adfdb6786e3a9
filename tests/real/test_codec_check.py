"""Codecs compared with their definitions: healthy ones pass, whatever the numbers; those that lose more are named."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import parse_codec
from simfrontier_real.ops.arrays import Backend, numpy_backend, torch_backend
from simfrontier_real.ops.codecs import mpc, plain, quantised, zfp
from simfrontier_real.verify.codec_check import check_codec, noise_of

CODECS = (
    *(f"{name}:{block}" for name in ("int8", "int4") for block in (1, 2, 3, 17, 64, 6144, 10**6)),
    *(f"zfp:{rate}" for rate in (2.25, 3, 4, 5, 5.75, 6, 8, 12, 16, 24, 28, 32)),
    *("mpc", "mpc:fp16", "mpc:fp32", "mpc:fp64", "mpc:bf16", "fp64", "fp32", "fp16", "bf16"),
)


@pytest.mark.parametrize("text", CODECS)
def test_what_we_ship_loses_what_is_documented(text: str) -> None:
    for backend in (numpy_backend(), torch_backend()):
        if text != "mpc:bf16" or backend.is_torch:
            check_codec(backend, parse_codec(text))


def test_documented_losses_by_hand() -> None:
    """A step of 1/127 or 1/7 of a block's peak, over sqrt(12): the peak of 64 normal numbers is 2.63, in the square
    root of its mean square. fp16 and bf16 are off by at most 2^-11 and 2^-8 of the power of two at or below a number,
    which over all of them is 0.74, in the same sense, and by that over sqrt(3)."""
    for text, expected in {
        "int8:64": 2.63 / 127 / 12**0.5,
        "int4:64": 2.63 / 7 / 12**0.5,
        "fp16": 0.74 * 2.0**-11 / 3**0.5,
        "bf16": 0.74 * 2.0**-8 / 3**0.5,
    }.items():
        assert noise_of(parse_codec(text)) == pytest.approx(expected, rel=0.03), text
    assert noise_of(parse_codec("mpc")) == noise_of(parse_codec("mpc:fp16")) == 0.0


# ── what is wrong ──


def _fewer_bits(sound: Callable[..., Any]) -> Callable[..., Any]:
    """Numbers that have lost their last bits before they are coded."""

    def encode(backend: Backend, pieces: Any, codec: Any) -> Any:
        return sound(backend, backend.xp.round(pieces * 16) / 16, codec)

    return encode


def _shrunk(sound: Callable[..., Any]) -> Callable[..., Any]:
    def decode(backend: Backend, encoded: Any, codec: Any, length: int, dtype: str) -> Any:
        return sound(backend, encoded, codec, length, dtype) * 0.98

    return decode


def _down(sound: Callable[..., Any]) -> Callable[..., Any]:
    """fp16 that rounds down."""

    def encode(backend: Backend, pieces: Any, codec: Any) -> Any:
        near = sound(backend, pieces, codec)
        above = near.data.astype(np.float64) > pieces
        near.data[above] = np.nextafter(near.data[above], np.float16(-np.inf))
        return near

    return encode


def _saturated(sound: Callable[..., Any]) -> Callable[..., Any]:
    def encode(backend: Backend, pieces: Any, codec: Any) -> Any:
        return sound(backend, backend.xp.clip(pieces, -1024.0, 1024.0), codec)

    return encode


@pytest.mark.parametrize(
    ("text", "module", "name", "wrong"),
    [
        ("zfp:16", zfp, "encode", _fewer_bits),
        ("zfp:16", zfp, "decode", _shrunk),
        ("mpc:fp32", mpc, "encode", _fewer_bits),
        ("mpc", mpc, "decode", _shrunk),
        ("fp16", plain, "encode", _down),
        ("fp16", plain, "encode", _saturated),
        ("bf16", plain, "decode", _shrunk),
        ("int8:64", quantised, "decode", _shrunk),
    ],
)
def test_a_codec_that_loses_more_is_named(
    text: str, module: Any, name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, wrong(getattr(module, name)))
    with pytest.raises(SimfrontierError, match=rf"^codec {re.escape(text)}: loses .*; documented: ") as raised:
        check_codec(numpy_backend(), parse_codec(text))
    assert raised.value.exit_code == 1 and "\n" not in str(raised.value)
