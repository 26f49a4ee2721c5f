"""Two generated tables of one population: a bank with the label, and a call centre."""

import random
from pathlib import Path

BANK = "kunde;alter;beruf;saldo;kredit;kreditsumme;zinssatz;filiale;eroeffnet;abschluss"
CALLS = "kunde;anrufe;dauer;letzter_kontakt;kanal;wartezeit;zufriedenheit;bemerkung"
PRESENT, KNOWN = 0.9, 0.95  # fraction of the people in each table, and of the values in a column


def write_tables(folder: Path, people: int, seed: int = 1) -> tuple[Path, Path]:
    """Write ``bank.csv`` (cp1252) and ``calls.csv`` (UTF-8 with a mark); return their paths.

    Both have semicolons and decimal commas, and 16 columns beside the ID.
    """
    draw = random.Random(seed)
    bank, calls = [BANK], [CALLS]
    for number in range(people):
        customer = f"K{number:06d}"
        job = draw.choice(["angestellt", "selbständig", "rentner", "student"])
        balance, count = draw.gauss(2500, 1500), draw.randint(0, 9)
        length, mood = draw.expovariate(1 / 180), draw.choice(["gut", "mittel", "schlecht"])
        score = 0.004 * length + 0.3 * count - 0.0003 * balance - (mood == "schlecht") - 1.2
        sold = "ja" if score + 0.8 * (job == "rentner") + draw.gauss(0, 0.5) > 0 else "nein"
        if draw.random() < PRESENT:
            loan = draw.random() < 0.4
            day = f"{draw.randint(1, 28):02d}.{draw.randint(1, 12):02d}.{draw.randint(1990, 2024)}"
            cells = [customer, str(draw.randint(18, 80)), job, known(draw, balance, "")]
            cells += ["ja" if loan else "nein", comma(loan * draw.uniform(1000, 20000))]
            cells += [comma(draw.uniform(1, 9)), f"{draw.randint(1, 25):03d}", day, sold]
            bank.append(";".join(cells))
        if draw.random() < PRESENT:
            day = f"2024-{draw.randint(1, 12):02d}-{draw.randint(1, 28):02d}"
            channel = draw.choice(["telefon", "mail", "chat"])
            cells = [customer, str(count), known(draw, length, "NA"), day, channel]
            cells += [comma(draw.expovariate(1 / 60)), mood, f"Gespräch {draw.random()}"]
            calls.append(";".join(cells))
    for name, lines, encoding in (("bank", bank, "cp1252"), ("calls", calls, "utf-8-sig")):
        (folder / f"{name}.csv").write_bytes(("\r\n".join(lines) + "\r\n").encode(encoding))
    return folder / "bank.csv", folder / "calls.csv"


def comma(number: float) -> str:
    """Return a number with a decimal comma."""
    return f"{number:.2f}".replace(".", ",")


def known(draw: random.Random, number: float, mark: str) -> str:
    """Return the number or, for some rows, the mark of a missing value."""
    return comma(number) if draw.random() < KNOWN else mark
