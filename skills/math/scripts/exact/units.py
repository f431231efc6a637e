"""Units and what they are in the unit of their kind, exact by definition."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from exact.functions import pi
from exact.values import Fault


@dataclass(frozen=True)
class Unit:
    """`value * factor + offset` is the same in the unit of the kind."""

    name: str
    kind: str
    factor: Fraction
    offset: Fraction = Fraction(0)
    rounded: bool = False


# For each kind its unit, then others: name, more names, what one of them is.
TABLE = {
    "length": """
        m 米; km 公里 千米 = 1000; dm = 0.1; cm 厘米 = 0.01; mm 毫米 = 0.001; um µm micron = 1e-6; nm = 1e-9;
        inch in 英寸 = 0.0254; ft foot feet 英尺 = 0.3048; yd yard = 0.9144; mile mi 英里 = 1609.344;
        nmi 海里 = 1852; ly = 9460730472580800; au = 149597870700; 里 = 500; 丈 = 10/3; 尺 = 1/3; 寸 = 1/30
    """,
    "mass": """
        kg 公斤 千克; g 克 = 0.001; mg 毫克 = 1e-6; ug µg = 1e-9; t tonne 吨 = 1000;
        lb lbs pound 磅 = 0.45359237; oz ounce 盎司 = 0.028349523125; stone = 6.35029318;
        short-ton = 907.18474; long-ton = 1016.0469088; carat = 0.0002; grain = 0.00006479891; 斤 = 0.5;
        两 = 0.05; 钱 = 0.005
    """,
    "time": """
        s sec second 秒; ms 毫秒 = 0.001; us µs = 1e-6; ns = 1e-9; min minute 分钟 = 60; h hour 小时 = 3600;
        day d 天 = 86400; week 周 = 604800; julian-year = 31557600
    """,
    "area": """
        m2 m² sqm 平方米; km2 km² 平方公里 = 1000000; dm2 = 0.01; cm2 cm² = 0.0001; mm2 mm² = 1e-6;
        ha 公顷 = 10000; are = 100; acre 英亩 = 4046.8564224; ft2 sqft = 0.09290304; in2 = 0.00064516;
        yd2 = 0.83612736; mi2 = 2589988.110336; 亩 = 2000/3
    """,
    "volume": """
        l litre liter 升; ml 毫升 = 0.001; cl = 0.01; dl = 0.1; m3 m³ 立方米 = 1000; cm3 cc = 0.001; dm3 = 1;
        gal-us = 3.785411784; gal-uk = 4.54609; qt-us = 0.946352946; pt-us = 0.473176473; pt-uk = 0.56826125;
        cup-us = 0.2365882365; floz-us = 0.0295735295625; floz-uk = 0.0284130625; tbsp-us = 0.01478676478125;
        tsp-us = 0.00492892159375; ft3 = 28.316846592; in3 = 0.016387064; bbl = 158.987294928
    """,
    "speed": """
        m/s mps; km/h kmh kph = 5/18; mph = 0.44704; kn knot 节 = 463/900; ft/s = 0.3048
    """,
    "pressure": """
        Pa; hPa = 100; kPa = 1000; MPa = 1000000; bar = 100000; mbar = 100; atm 大气压 = 101325;
        psi = 44482216152605/6451600000; torr = 101325/760; mmHg = 133.322387415
    """,
    "energy": """
        J joule 焦耳; kJ = 1000; MJ = 1000000; Wh = 3600; kWh 度电 = 3600000; cal = 4.184;
        kcal 千卡 大卡 = 4184; BTU = 1055.05585262; eV = 1.602176634e-19
    """,
    "power": """
        W watt 瓦; mW = 0.001; kW 千瓦 = 1000; MW = 1000000; hp = 745.69987158227022; PS 马力 = 735.49875
    """,
    "force": """
        N; kN = 1000; lbf = 4.4482216152605; kgf = 9.80665; dyn = 0.00001
    """,
    "data": """
        byte B bytes 字节; bit = 1/8; kbit = 125; Mbit = 125000; Gbit = 125000000; kB KB = 1000; MB = 1000000;
        GB = 1000000000; TB = 1e12; PB = 1e15; KiB = 1024; MiB = 1048576; GiB = 1073741824; TiB = 1099511627776
    """,
    "data rate": """
        B/s; bit/s bps = 1/8; kbit/s kbps = 125; Mbit/s Mbps = 125000; Gbit/s Gbps = 125000000; kB/s = 1000;
        MB/s = 1000000; GB/s = 1000000000; KiB/s = 1024; MiB/s = 1048576
    """,
    "frequency": """
        Hz; kHz = 1000; MHz = 1000000; GHz = 1000000000; rpm = 1/60
    """,
    "angle": """
        deg degree 度; turn = 360; grad = 0.9; arcmin = 1/60; arcsec = 1/3600
    """,
    "temperature": """
        K kelvin; C celsius °C 摄氏度 = 1 + 273.15; F fahrenheit °F 华氏度 = 5/9 + 45967/180
    """,
}
UNCLEAR = {
    "gallon": "gal-us or gal-uk",
    "gal": "gal-us or gal-uk",
    "ton": "t (metric), short-ton (US) or long-ton (UK)",
    "pint": "pt-us or pt-uk",
    "cup": "cup-us",
    "floz": "floz-us or floz-uk",
    "year": "julian-year (365.25 days), or say how many days",
    "month": "day; a month has no fixed length",
    "calorie": "cal or kcal (what food has)",
}


def units() -> dict[str, Unit]:
    """Every unit by each of its names."""
    found: dict[str, Unit] = {}
    for kind in TABLE:
        for names, value in rows(kind):
            factor, _, offset = value.partition(" + ")
            unit = Unit(names[0], kind, Fraction(factor or "1"), Fraction(offset or "0"))
            found.update(dict.fromkeys(names, unit))
    radian = Unit("rad", "angle", 180 / Fraction(pi()), rounded=True)
    found.update({"rad": radian, "radian": radian})
    return found


def rows(kind: str) -> Iterator[tuple[list[str], str]]:
    """The names of each unit of a kind, and what one is."""
    for row in " ".join(TABLE[kind].split()).split("; "):
        names, _, value = row.partition(" = ")
        yield names.split(), value


def find(name: str, known: dict[str, Unit]) -> Unit:
    """The unit of a name: as it is written, or in other case when only one is meant."""
    if name in known:
        return known[name]
    hint = UNCLEAR.get(name.lower().rstrip("s"))
    if hint:
        raise Fault(f"unit: {name!r} may be several things; use {hint}")
    plain = name.casefold()
    same = {unit.name: unit for word, unit in known.items() if word.casefold() in (plain, plain.removesuffix("s"))}
    if len(same) == 1:
        return next(iter(same.values()))
    near = list(same) or difflib.get_close_matches(name, known, 3)
    raise Fault(
        f"unit: {name!r} is not known{'; did you mean ' + ', '.join(near) + '?' if near else ''} (--list shows all)"
    )


def convert(value: Fraction, source: Unit, target: Unit) -> Fraction:
    """The same amount in another unit of the same kind."""
    if source.kind != target.kind:
        raise Fault(f"unit: {source.name} is a unit of {source.kind}, {target.name} one of {target.kind}")
    return (value * source.factor + source.offset - target.offset) / target.factor
