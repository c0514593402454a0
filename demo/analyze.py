"""What an agent might write: reads /inputs, draws two charts and a report into out/. Standard library only."""

import csv
import json
import os
import statistics
from collections import defaultdict
from html import escape

MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 760, 420, 64, 64, 56
INK, GRID, WARM, COOL, RAIN = "#22303c", "#d9e0e6", "#d1603d", "#3d7ea6", "#9cc4dc"


def read_weather(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def monthly(rows):
    """One row a month: mean highest and lowest temperature (C), mean rain (mm a month)."""
    groups = defaultdict(list)
    for row in rows:
        groups[int(row["date"][5:7])].append(row)
    years = len({row["date"][:4] for row in rows})
    return [
        {
            "month": MONTHS[month - 1],
            "high": statistics.fmean(float(r["temp_max"]) for r in groups[month]),
            "low": statistics.fmean(float(r["temp_min"]) for r in groups[month]),
            "rain": sum(float(r["precipitation"]) for r in groups[month]) / years,
        }
        for month in sorted(groups)
    ]


def genres(movies):
    """Median worldwide gross (million dollars) of every genre with at least 40 films."""
    groups = defaultdict(list)
    for movie in movies:
        if movie.get("Major Genre") and movie.get("Worldwide Gross"):
            groups[movie["Major Genre"]].append(movie["Worldwide Gross"] / 1e6)
    rows = [(genre, statistics.median(gross), len(gross)) for genre, gross in groups.items() if len(gross) >= 40]
    return sorted(rows, key=lambda row: -row[1])


class Svg:
    def __init__(self, title, subtitle):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12" fill="{INK}">',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        ]
        self.text(LEFT, 28, title, size=18, weight="bold")
        self.text(LEFT, 47, subtitle, fill="#5b6b78")

    def text(self, x, y, text, anchor="start", size=12, fill=INK, weight="normal"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" fill="{fill}">{escape(text)}</text>'
        )

    def bar(self, x, y, width, height, fill):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="2" fill="{fill}"/>')

    def line(self, x1, y1, x2, y2, stroke=GRID, width=1):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" stroke-width="{width}"/>')

    def path(self, points, stroke):
        self.parts.append(
            '<polyline fill="none" stroke-width="2.5" stroke-linejoin="round" '
            f'stroke="{stroke}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'
        )
        self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{stroke}"/>' for x, y in points]

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([*self.parts, "</svg>", ""]))


def draw_weather(rows, path):
    svg = Svg("Seattle: warm dry summers, mild wet winters", "Monthly means, 2012-2015: highest and lowest temperature, rain")
    plot, right = HEIGHT - TOP - BOTTOM, WIDTH - 68
    step = (right - LEFT) / len(rows)
    degrees = lambda value: TOP + plot * (1 - value / 30)
    rain = lambda value: plot * value / 300
    for value in range(0, 31, 5):
        svg.line(LEFT, degrees(value), right, degrees(value))
        svg.text(LEFT - 8, degrees(value) + 4, f"{value} °C", "end")
        svg.text(right + 8, degrees(value) + 4, f"{value * 10} mm", fill="#6b9ab8")
    for index, row in enumerate(rows):
        center = LEFT + step * (index + 0.5)
        svg.bar(center - step * 0.3, TOP + plot - rain(row["rain"]), step * 0.6, rain(row["rain"]), RAIN)
        svg.text(center, HEIGHT - BOTTOM + 18, row["month"], "middle")
    for key, color in (("high", WARM), ("low", COOL)):
        svg.path([(LEFT + step * (i + 0.5), degrees(row[key])) for i, row in enumerate(rows)], color)
    for index, (label, color) in enumerate((("mean daily high", WARM), ("mean daily low", COOL), ("rain in a month", RAIN))):
        svg.bar(LEFT + 170 * index, HEIGHT - 22, 12, 12, color)
        svg.text(LEFT + 170 * index + 18, HEIGHT - 12, label)
    svg.save(path)


def draw_genres(rows, path):
    svg = Svg("What earns most at the box office", "Median worldwide gross of a film, million US dollars (number of films)")
    left, right = 170, WIDTH - 130
    step = (HEIGHT - TOP - 24) / len(rows)
    most = max(gross for _, gross, _ in rows)
    for index, (genre, gross, count) in enumerate(rows):
        y = TOP + 8 + step * index
        width = (right - left) * gross / most
        svg.text(left - 10, y + step * 0.55, genre, "end")
        svg.bar(left, y + step * 0.14, width, step * 0.62, COOL)
        svg.text(left + width + 8, y + step * 0.55, f"{gross:.0f} ({count})")
    svg.save(path)


def report(weather, months, films, path):
    warmest = max(months, key=lambda row: row["high"])
    wettest = max(months, key=lambda row: row["rain"])
    dry_days = sum(float(row["precipitation"]) == 0 for row in weather) / len(weather)
    lines = [
        "# What the data say",
        "",
        f"- Seattle, {len(weather)} days: warmest month {warmest['month']} (mean high {warmest['high']:.1f} °C), "
        f"wettest {wettest['month']} ({wettest['rain']:.0f} mm); {dry_days:.0%} of the days were dry.",
        f"- Films: {films[0][0]} earns most ({films[0][1]:.0f} million dollars median), {films[-1][0]} least ({films[-1][1]:.0f}).",
        "",
        "| month | mean high °C | mean low °C | rain mm |",
        "| --- | ---: | ---: | ---: |",
        *(f"| {r['month']} | {r['high']:.1f} | {r['low']:.1f} | {r['rain']:.0f} |" for r in months),
        "",
        "Charts: `weather.svg`, `movies.svg`.",
        "",
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def main():
    os.makedirs("out", exist_ok=True)
    weather = read_weather("/inputs/seattle-weather.csv")
    print(f"read {len(weather)} days of weather", flush=True)
    with open("/inputs/movies.json", encoding="utf-8") as file:
        movies = json.load(file)
    print(f"read {len(movies)} films", flush=True)
    months, films = monthly(weather), genres(movies)
    draw_weather(months, "out/weather.svg")
    draw_genres(films, "out/movies.svg")
    report(weather, months, films, "out/report.md")
    print("wrote out/weather.svg, out/movies.svg, out/report.md", flush=True)


if __name__ == "__main__":
    main()
