"""Compares a Parquet file with lines of JSON: `read_parquet.py FILE.parquet FILE.jsonl`.

Reads the file by pyarrow, which shares no code with the crate that writes it. Every value of the
JSON must be in the file, to the last bit of each number, and no row besides.
"""

import json
import struct
import sys

import pyarrow.parquet as parquet


def bits(number):
    return struct.pack("<d", float(number))


def expected(lines):
    for line in lines:
        run = json.loads(line)
        for metric, statistics in sorted(run["metrics"].items()):
            yield run, metric, statistics


def main():
    file = parquet.ParquetFile(sys.argv[1])
    metadata = {key.decode(): value.decode() for key, value in file.metadata.metadata.items()}
    columns = json.loads(metadata["carob.columns"])
    rows = file.read().to_pylist()
    assert [column["name"] for column in columns] == file.schema_arrow.names, "the dictionary"
    assert all(column["unit"] and column["meaning"] for column in columns), "units and meanings"
    units = {metric["name"]: metric["unit"] for metric in json.loads(metadata["carob.metrics"])}
    with open(sys.argv[2], encoding="utf-8") as lines:
        wanted = list(expected(lines))
    assert len(rows) == len(wanted), (len(rows), len(wanted))
    for row, (run, metric, statistics) in zip(rows, wanted):
        for name in ("scenario", "algorithm", "seed", "trace_hash"):
            assert row[name] == run[name], (name, row, run)
        for name, value in run["cell"].items():
            text = value if isinstance(value, str) else json.dumps(value)
            assert row[name] == text, (name, row[name], text)
        assert row["metric"] == metric, (row, metric)
        assert row["unit"] == units[metric], (row, metric)
        assert row["n"] == statistics.pop("n"), (row, metric)
        for name, value in statistics.items():
            assert bits(row[name]) == bits(value), (name, row, value)
        assert len(row["scenario_hash"]) == 16 and row["version"] == metadata["carob.version"]
    print(len(rows))


main()
