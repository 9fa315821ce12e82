"""Write aiocoap's tables of option numbers, codes and content formats as TOML.

Run with a Python that has aiocoap 0.4.17 installed:

    python3 aiocoap_numbers.py > aiocoap_numbers.toml

The tests `numbers` of carob-codec compare the result with its tables.
"""

from importlib.metadata import version

from aiocoap import optiontypes
from aiocoap.numbers import contentformat
from aiocoap.numbers.codes import Code
from aiocoap.numbers.optionnumbers import OptionNumber

FORMATS = {
    optiontypes.OpaqueOption: "opaque",
    optiontypes.StringOption: "string",
    optiontypes.UintOption: "uint",
    optiontypes.BlockOption: "uint",
    optiontypes.ContentFormatOption: "uint",
}


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


print("# Written by aiocoap_numbers.py; do not edit.")
print(f"version = {quoted(version('aiocoap'))}")
for option in sorted(OptionNumber, key=int):
    print("\n[[option]]")
    print(f"number = {int(option)}")
    print(f"name = {quoted(option.name_printable)}")
    print(f"format = {quoted(FORMATS[option.format])}")
    print(f"critical = {str(option.is_critical()).lower()}")
    print(f"unsafe = {str(option.is_unsafe()).lower()}")
    print(f"no_cache_key = {str(not option.is_unsafe() and option.is_nocachekey()).lower()}")
for code in sorted(Code, key=int):
    print("\n[[code]]")
    print(f"number = {int(code)}")
    print(f"name = {quoted(code.name_printable)}")
for _, coding, number, _ in contentformat._raw:
    known = contentformat.ContentFormat(int(number)) if number.isdigit() else None
    if known is not None and known.is_known():
        print("\n[[content_format]]")
        print(f"number = {int(known)}")
        print(f"media_type = {quoted(known.media_type)}")
        print(f"coding = {quoted(coding)}")
