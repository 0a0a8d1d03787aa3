"""What robots send: as measured, and by the paper's accounting (fedcka spec 7.4).

A robot sends, in a round, 4 bytes for every floating entry that it shares, and its mask: a bit for every unit (FedCKA)
or for every entry (methods that keep single elements), rounded up to whole bytes; no mask in rounds without one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fed_core.study.report.detection.figures import branch
from fed_core.study.report.results import REFERENCES, Cell, number

#: A robot's own count, which methods with element masks send.
_COUNTED = "upload_bytes"
_BYTES_OF_ENTRY, _BITS_OF_BYTE = 4, 8


def measured(cell: Cell, direction: str) -> float | None:
    """Return all bytes of a run, "upload" or "download"; None for what is no federation."""
    return None if cell.label in REFERENCES else cell.figure(f"{direction}_bytes")


def accounted(cell: Cell) -> float | None:
    """Return the bytes that all robots send in a run by the paper's accounting; None without the figures for it."""
    entries = number(cell.result.get("entries"))
    if cell.label in REFERENCES or entries is None or not cell.rounds:
        return None
    return float(sum(_of_round(cell, row, int(entries)) for row in cell.rounds))


def _of_round(cell: Cell, row: Mapping[str, Any], entries: int) -> float:
    masks, counted = branch(row, "masks"), branch(row, "told", _COUNTED)
    total = 0.0
    for client in branch(row, "losses"):
        own = number(counted.get(client))
        if own is not None:
            total += own
        elif cell.result.get("units"):
            total += _with_units(cell.result["units"], masks.get(client), entries)
        else:
            kept = number(branch(cell.result, "personal", client).get("entries")) or 0.0
            total += _BYTES_OF_ENTRY * (entries - kept)
    return total


def _with_units(units: Sequence[Mapping[str, Any]], mask: Any, entries: int) -> float:
    if not isinstance(mask, str) or not mask:
        return float(_BYTES_OF_ENTRY * entries)
    kept = sum(_personal_entries(units, mask))
    return float(_BYTES_OF_ENTRY * (entries - kept) + -(-len(mask) // _BITS_OF_BYTE))


def _personal_entries(units: Sequence[Mapping[str, Any]], mask: str) -> Iterator[int]:
    return (int(unit.get("entries") or 0) for unit, bit in zip(units, mask, strict=False) if bit == "0")
