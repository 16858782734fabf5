"""Rows that are exported and read again, and the words of an estimate."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from msgspec.structs import replace
from speed_asking import ROWS, RULES, ask, made
from test_evidence_by_hand import LOAD, measured

from advisor.errors import BadFile
from advisor.session import Session
from advisor.speed.estimator import estimate_speed, find_layout
from advisor.speed.row_export import COLUMNS, ExportedRows, export_rows
from tools.speed.rows import make_samples, read_measured_rows

# --- rows


def test_rows_are_written_for_what_others_can_ask(tmp_path: Path) -> None:
    name, machine = "meta-llama/Llama-3.1-8B-Instruct", "2x RTX 3090; driver"
    good = measured(model=name, machine=machine, kind="tpot", measured=0.0123456789)
    others = [
        replace(good, measured=None),
        replace(good, machine="cpu; 64 GB"),
        replace(good, machine="1x RTX 3090, 1x RTX 4090; x"),
        replace(good, machine=""),
        replace(good, model="/home/me/x.gguf"),
    ]
    path = tmp_path / "rows.csv"
    assert export_rows([good, *others], path, RULES) == ExportedRows(1, 5)
    with path.open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert tuple(row) == COLUMNS
    assert len(row["id"]) == 12
    int(row["id"], 16)
    assert (row["hardware"], row["class"], row["tpot"], row["decode"]) == (
        "2x RTX 3090",
        "2x RTX 3090",
        "0.0123457",
        "",
    )
    assert (row["settings"], row["engine_version"], row["depth_tokens"]) == ("", "", "16")
    assert row["group"] == "own measurement|2x RTX 3090|meta-llama/Llama-3.1-8B-Instruct|Q4_K_M"
    more = replace(good, settings={"parallel": "2"}, engine_version="b9")
    assert export_rows([good, more], path, RULES) == ExportedRows(1, 0)
    assert len(path.read_text().splitlines()) == 3
    (first, second) = read_measured_rows(path)
    assert (first.id, first.kind, first.value, first.request.settings) == (row["id"], "tpot", 0.0123457, {})
    assert second.request.settings == {"parallel": "2"}
    assert (second.load.concurrency, second.load.prompt, second.load.output, second.load.depth) == (2, 512, 128, 16)


def test_the_columns_are_those_of_the_measured_rows() -> None:
    with ROWS.open(newline="", encoding="utf-8") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS


def test_rows_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    head = ",".join(COLUMNS)
    cells = dict.fromkeys(COLUMNS, "") | {
        "id": "r7", "decode": "50", "model": "8B", "engine": "llama.cpp", "hardware": "RTX 3090", "concurrency": "1",
        "prompt_tokens": "5", "output_tokens": "6", "depth_tokens": "0", "date": "2026-01-02", "quality": "doubtful: x",
    }  # fmt: skip
    path = tmp_path / "rows.csv"
    path.write_text(f"{head}\n{','.join(cells.values())}\n")
    (row,) = read_measured_rows(path)
    assert (row.doubtful, row.request.quantization, row.request.kv_cache_type, row.value) == (True, None, None, 50.0)
    assert make_samples([row], RULES) == []
    assert len(make_samples([replace(row, doubtful=False)], RULES)) == 1
    lost = replace(row, doubtful=False, request=replace(row.request, model="nobody/nothing"))
    assert make_samples([lost], RULES) == []
    for column, text in (("decode", "x"), ("concurrency", ""), ("settings", "{")):
        path.write_text(f"{head}\n{','.join((cells | {column: text}).values())}\n")
        with pytest.raises(BadFile, match="row r7"):
            list(read_measured_rows(path))
    path.write_text("id\nr7\n")
    with pytest.raises(BadFile, match="row r7"):
        list(read_measured_rows(path))


# --- words of an estimate


def test_notes_of_a_speed() -> None:
    d, m = made("8B", "BF16", "H100 80GB SXM", "vllm", settings={"max-num-seqs": 2})
    usual = ask(d, m, concurrency=2)
    assert not usual.limited
    assert len(usual.notes) == 1
    assert usual.calibration is None
    more = ask(d, m, concurrency=5)
    assert more.limited
    assert "2 of 5 requests run at once, the rest waits" in more.notes
    short = replace(m, fits=False)
    assert any("it does not fit as it is" in n for n in ask(d, short).notes)
    unsure = replace(m, fits=None)
    assert not any("it does not fit as it is" in n for n in ask(d, unsure).notes)
    for hardware, known in (("cpu, 64GB RAM", False), ("Ryzen AI Max+ 395 cpu, 128GB RAM, 16 cores", True)):
        host = ask(*made("8B", "Q4_K_M", hardware))
        assert any("bandwidth of the host's memory is not known" in n for n in host.notes) is not known, hardware
    unsized = ask(*made("8B", "Q4_K_M", "cpu, 64GB RAM"))
    assert any("processor's cores are not known" in n for n in unsized.notes)
    assert (unsized.prefill_tps, unsized.ttft_s, unsized.output_tps) == (None, None, None)
    assert unsized.decode_tps is not None
    assert unsized.decode_tps.high / unsized.decode_tps.value >= 1.8 * 90 / 60 - 1e-9  # two channels
    many = ask(*made("8B", "Q4_K_M", "cpu, 64GB RAM", sequences=2), concurrency=2)
    assert (many.decode_tps, many.tpot_s) == (None, None)


def test_layouts_in_a_word() -> None:
    d, m = made("8B", "BF16", "2x H100", "vllm", settings={"tensor-parallel-size": 2})
    assert find_layout(d, m, RULES) == "tp2-pp1-dp1"
    stub = replace(d, model=replace(d.model, layout=None))
    assert find_layout(stub, m, RULES) == ""


def test_what_nobody_can_time() -> None:
    d, m = made("8B", "BF16", "H100", "vllm")
    assert estimate_speed(d, replace(m, refused="it is refused"), Session(RULES), LOAD) is None
    assert estimate_speed(d, m, Session(RULES), LOAD) is not None
