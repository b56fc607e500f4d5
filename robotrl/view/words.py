"""Numbers as a reader wants them: percent, points, seconds and counts. A value that is not finite is a dash."""

import math

_THIN = "\u202f"
_MINUS = "−"
DASH = "–"


def percent(fraction: float, decimals: int = 1) -> str:
    """A fraction as percent, without the digits that say nothing: 0.57 → 57 %."""
    if not math.isfinite(fraction):
        return DASH
    text = f"{100 * fraction:.{decimals}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}{_THIN}%"


def span(low: float, high: float) -> str:
    """An interval of fractions in percent, without the sign: 91.5–96.1."""
    return f"{percent(low)[:-2]}–{percent(high)[:-2]}" if math.isfinite(low) and math.isfinite(high) else DASH


def points(fraction: float, unit: bool = True) -> str:
    """A difference of two rates in percentage points, signed: 0.332 → +33.2 points."""
    if not math.isfinite(fraction):
        return DASH
    value = round(100 * fraction, 1)
    sign = "+" if value > 0 else _MINUS if value < 0 else "±"
    return f"{sign}{abs(value):g}{' points' if unit else ''}"


def number(value: float, decimals: int = 2) -> str:
    """A plain number with fixed decimals; large counts are grouped by thin spaces."""
    if not math.isfinite(value):
        return DASH
    return f"{value:,.{decimals}f}".replace(",", _THIN).replace("-", _MINUS)


def count(value: float) -> str:
    """A whole number, grouped by thin spaces: 12000 → 12 000."""
    return number(value, 0)


def seconds(value: float) -> str:
    """A duration: 4.2 s, 2 min 05 s, 1 h 02 min."""
    if not math.isfinite(value):
        return DASH
    if value < 59.95:
        return f"{value:.1f}".removesuffix(".0") + f"{_THIN}s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60}{_THIN}min {whole % 60:02d}{_THIN}s"
    return f"{whole // 3600}{_THIN}h {whole % 3600 // 60:02d}{_THIN}min"


def sentence(text: str) -> str:
    """`text` with a capital and a full stop."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) or not text else ".")
