"""Speeds of codecs: what a machine's file says, what overrides set, and what is refused in one line."""

import re
from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.machine import CodecSpeeds, catalog, load_machine
from simfrontier.machine.load import CATALOG

PART = 'encode_bytes_per_s = { value = 1e9, kind = "measured", source = "toy" }\n'
ZFP = f"[device.codecs.zfp]\n{PART}{PART.replace('encode', 'decode')}"


def _speeds(bytes_per_s: float) -> CodecSpeeds:
    return CodecSpeeds(encode_bytes_per_s=bytes_per_s, decode_bytes_per_s=bytes_per_s)


def of_toy(folder: Path, more: str) -> str:
    path = folder / "mine.toml"
    toy = (CATALOG / "toy-pair.toml").read_text(encoding="utf-8")
    silent = re.sub(r"\[device\.codecs\.\w+\]\n(?:\w+ = .*\n)*", "", toy)
    path.write_text(silent + more, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", [name for name in catalog() if load_machine(name).device.codecs])
def test_machines_that_say_it_assume_a_quarter_of_their_memorys_speed(name: str) -> None:
    machine = load_machine(name)
    quarter = _speeds(machine.device.hbm_bytes_per_s / 4)
    if name == "perlmutter-80gb":  # whose memory is faster than that of its base
        quarter = _speeds(load_machine("perlmutter").device.hbm_bytes_per_s / 4)
    assert machine.device.codecs == {"zfp": quarter, "mpc": quarter}
    assert {row.kind for row in machine.provenance() if "codecs" in row.key} == {"assumed"}


def test_a_file_may_say_it_and_an_override_wins(tmp_path: Path) -> None:
    path = of_toy(tmp_path, ZFP)
    assert load_machine(path).device.codecs == {"zfp": CodecSpeeds(encode_bytes_per_s=1e9, decode_bytes_per_s=1e9)}
    changed = load_machine(path, {"device.codecs.zfp.decode_bytes_per_s": 5e8})
    assert changed.device.codecs["zfp"] == CodecSpeeds(encode_bytes_per_s=1e9, decode_bytes_per_s=5e8)
    kinds = {row.key: (row.kind, row.unit) for row in changed.provenance() if "codecs" in row.key}
    assert kinds == {
        "device.codecs.zfp.encode_bytes_per_s": ("measured", "bytes/s"),
        "device.codecs.zfp.decode_bytes_per_s": ("assumed", "bytes/s"),
    }


@pytest.mark.parametrize("name", ["zfp", "mpc", "int8", "int4"])
def test_overrides_set_codecs_also_those_of_which_a_file_is_silent(name: str) -> None:
    key = f"device.codecs.{name}"
    machine = load_machine("frontier", {f"{key}.encode_bytes_per_s": 2e9, f"{key}.decode_bytes_per_s": 3e9})
    assert machine.device.codecs[name] == CodecSpeeds(encode_bytes_per_s=2e9, decode_bytes_per_s=3e9)
    assert hash(machine.device) == hash(load_machine("frontier").device)  # not of the codecs
    assert machine.device != load_machine("frontier").device


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"int8.encode_bytes_per_s": 1e9},
            "device.codecs.int8: got encode_bytes_per_s alone, "
            "allowed: encode_bytes_per_s and decode_bytes_per_s, or neither",
        ),
        (
            {"zpf.encode_bytes_per_s": 1e9},
            '"device.codecs.zpf.encode_bytes_per_s" is not a number of this machine; '
            'did you mean "device.codecs.zfp.encode_bytes_per_s"?',
        ),
        (
            {"mpc.encode_bytes_per_s": 0.0, "mpc.decode_bytes_per_s": 1e9},
            "device.codecs.mpc.encode_bytes_per_s.value: got 0.0, allowed: more than 0 and at most 1e+30",
        ),
    ],
)
def test_wrong_overrides_are_refused(overrides: dict[str, float], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_machine("frontier", {f"device.codecs.{key}": value for key, value in overrides.items()})
    assert str(caught.value) == f"frontier.toml, with overrides: {message}"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (ZFP.replace("zfp", "zfb"), 'device.codecs.zfb: unknown key; did you mean "zfp"?'),
        (ZFP.replace("decode", "decod"), 'device.codecs.zfp.decod_bytes_per_s: unknown key; did you mean "decode_byte'),
        (
            f"[device.codecs.zfp]\n{PART}",
            "device.codecs.zfp: got encode_bytes_per_s alone, allowed: encode_bytes_per_s",
        ),
        ("[device.codecs.zfp]\n", "device.codecs.zfp.encode_bytes_per_s: missing, give { value, kind, source }"),
        ("[device.codecs]\nzfp = 3.0\n", "device.codecs.zfp: got 3.0, allowed: a table { encode_bytes_per_s, decode_"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, more: str, message: str) -> None:
    path = of_toy(tmp_path, more)
    with pytest.raises(InputError) as caught:
        load_machine(path)
    assert str(caught.value).startswith(f"{path}: {message}") and "\n" not in str(caught.value)
