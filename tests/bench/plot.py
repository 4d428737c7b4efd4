"""Draw the growth table as SVG that is readable on light and on dark backgrounds."""

from __future__ import annotations

from statistics import median

from tests.bench.growth import MUST, OPERATIONS, named, ratios
from tests.bench.phases import Measured

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 60, 500, 40, 270
LABEL_HEIGHT = 17
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #333 }
  .axis { stroke: #bbb } .must { stroke: #b00; stroke-dasharray: 6 4 } .limit { fill: #b00 }
  .line { fill: none; stroke-width: 2 }
  .c0 { stroke: #0a58ca } .c1 { stroke: #c2410c } .c2 { stroke: #15803d }
  .c3 { stroke: #7e22ce } .c4 { stroke: #64748b }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .axis { stroke: #555 } .must { stroke: #f77 } .limit { fill: #f77 }
    .c0 { stroke: #6ea8fe } .c1 { stroke: #fb923c } .c2 { stroke: #4ade80 }
    .c3 { stroke: #d8b4fe } .c4 { stroke: #94a3b8 }
  }
"""


def svg(measured: list[Measured], sizes: list[int]) -> str:
    """Cost at each size as a multiple of that at the first: the median of all rounds."""
    lines = {
        operation: [1.0, *(median(ratios(measured, sizes, size, operation)) for size in sizes[1:])]
        for operation in OPERATIONS
    }
    highest = max(1.4, *(value + 0.1 for values in lines.values() for value in values))
    lowest = min(0.8, *(value - 0.1 for values in lines.values() for value in values))

    def x(index: int) -> float:
        return LEFT + (RIGHT - LEFT) * index / max(1, len(sizes) - 1)

    def y(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (value - lowest) / (highest - lowest)

    parts = [f'<text x="{LEFT}" y="20">CPU of an operation, as a multiple of its cost on an empty database</text>']
    for value in (1.0, MUST):
        kind = "must" if value == MUST else "axis"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{RIGHT}" y1="{y(value):.0f}" y2="{y(value):.0f}"/>')
        limit = ' class="limit"' if value == MUST else ""
        parts.append(f'<text{limit} x="{LEFT - 10}" y="{y(value) + 4:.0f}" text-anchor="end">{value:.1f}</text>')
    for index, size in enumerate(sizes):
        parts.append(f'<text x="{x(index):.0f}" y="{BOTTOM + 24}" text-anchor="middle">{named(size)}</text>')
    parts.append(
        f'<text x="{(LEFT + RIGHT) / 2:.0f}" y="{BOTTOM + 44}" text-anchor="middle">rows of tokens, and of codes</text>'
    )
    for number, values in enumerate(lines.values()):
        points = " ".join(f"{x(index):.0f},{y(value):.1f}" for index, value in enumerate(values))
        parts.append(f'<polyline class="line c{number}" points="{points}"/>')
    free = float("-inf")
    for number, (operation, values) in sorted(enumerate(lines.items()), key=lambda line: -line[1][1][-1]):
        free = max(free + LABEL_HEIGHT, y(values[-1]))
        parts.append(f'<path class="line c{number}" d="M{RIGHT + 8},{free:.0f}h14"/>')
        parts.append(f'<text x="{RIGHT + 28}" y="{free + 4:.0f}">{operation} {values[-1]:.2f}</text>')
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Growth">\n'
        f"<style>{STYLE}</style>\n{body}\n</svg>\n"
    )
