"""Words that no dictionary has: dates, sums, telephone numbers and codes, what tills print, and words that
look like others.

A reader that knows its words too well reads "canary" where "Camry" stands. Words with a letter changed have
to be read, they cannot be guessed.
"""

from __future__ import annotations

import random
import string
from collections.abc import Sequence

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
CURRENCIES = ("$", "€", "£", "RM", "USD", "EUR", "Rp", "S$", "CHF", "kr")
UNITS = ("g", "kg", "ml", "L", "cm", "mm", "m", "KG", "G", "ML", "PCS", "pcs", "x", "X", "pk", "W", "V", "oz")
SIGNS = (
    "TOTAL", "Total", "SUBTOTAL", "Sub-Total", "CASH", "Cash", "CHANGE", "Change", "TAX", "GST", "VAT", "Tax",
    "AMOUNT", "Amount", "ROUNDING", "Rounding", "DISCOUNT", "Discount", "BALANCE", "Balance", "DUE", "TENDER",
    "QTY", "Qty", "ITEM", "Item", "PRICE", "Price", "VISA", "MASTERCARD", "CARD", "Nett", "Paid", "Deposit",
    "Service", "Charge", "Payable", "Incl.", "Excl.", "Fare", "Fee", "Tip",
)  # fmt: skip
HEADS = (
    "Invoice", "INVOICE", "Receipt", "RECEIPT", "Bill", "Ref", "Order", "ORDER", "Table", "Cashier",
    "CASHIER", "Counter", "Terminal", "Trans", "Document", "Member", "Customer", "Staff", "Till", "Store",
    "Batch", "Approval", "Ticket", "Booking", "Account", "Serial", "Reg", "Licence", "Station", "Room",
)  # fmt: skip
THANKS = (
    "THANK YOU", "Thank you, please come again", "GOODS SOLD ARE NOT RETURNABLE", "PLEASE KEEP THIS RECEIPT",
    "TAX INVOICE", "SIMPLIFIED TAX INVOICE", "CASH BILL", "CUSTOMER COPY", "Have a nice day", "Served by",
    "OPENING HOURS", "Item Qty Price Amount", "DESCRIPTION QTY U.PRICE TOTAL", "Amount Due", "Total Sales",
)  # fmt: skip
FIRMS = ("LTD", "Ltd.", "PLC", "SDN BHD", "GmbH", "Inc.", "LLC", "S.A.", "Co.", "& SONS", "TRADING", "MARKET")
STREETS = ("Street", "Road", "St.", "Rd.", "Jalan", "Avenue", "Lane", "Lot", "Block", "Square", "Rue", "Via")


def _digits(rng: random.Random, least: int, most: int = 0) -> str:
    return "".join(rng.choice(string.digits) for _ in range(rng.randint(least, max(least, most))))


def _capitals(rng: random.Random, least: int, most: int = 0) -> str:
    return "".join(rng.choice(string.ascii_uppercase) for _ in range(rng.randint(least, max(least, most))))


def date(rng: random.Random) -> str:
    day, month, year = rng.randint(1, 31), rng.randint(1, 12), rng.randint(1990, 2030)
    separator = rng.choice("//-.")
    name = rng.choice([MONTHS[month - 1], MONTHS[month - 1].upper()])
    return rng.choice(
        [
            f"{day:02d}{separator}{month:02d}{separator}{year}",
            f"{day:02d}{separator}{month:02d}{separator}{year}",
            f"{day}{separator}{month}{separator}{year}",
            f"{month:02d}{separator}{day:02d}{separator}{year % 100:02d}",
            f"{year}-{month:02d}-{day:02d}",
            f"{day:02d}-{name}-{year}",
            f"{day:02d}{name}{year}",
        ]
    )


def hour(rng: random.Random) -> str:
    minutes = f":{rng.randint(0, 59):02d}"
    if rng.random() < 0.4:
        return f"{rng.randint(1, 12)}{minutes}{rng.choice(['AM', 'PM', 'am', 'pm'])}"
    return f"{rng.randint(0, 23):02d}{minutes}{rng.choice(['', f':{rng.randint(0, 59):02d}'])}"


def amount(rng: random.Random) -> str:
    """From cents to millions, with and without a currency, as English and other bills write it."""
    value = 10 ** rng.uniform(-1, 3 if rng.random() < 0.7 else 8)
    plain = f"{value:,.2f}" if rng.random() < 0.85 else f"{value:.2f}"
    if rng.random() < 0.08:
        plain = plain.translate(str.maketrans(",.", ".,"))
    before = rng.choice(["", "", "", "", rng.choice(CURRENCIES), "-", "@"])
    return (
        before + plain + (rng.choice(["SR", "S", "*", "-", "ZRL", "T", "CR"]) if rng.random() < 0.12 else "")
    )


def telephone(rng: random.Random) -> str:
    return rng.choice(
        [
            f"{_digits(rng, 2, 3)}-{_digits(rng, 7, 8)}",
            f"{_digits(rng, 3)}-{_digits(rng, 3)}-{_digits(rng, 4)}",
            f"({_digits(rng, 2, 3)}){_digits(rng, 3)}-{_digits(rng, 4)}",
            f"+{_digits(rng, 1, 2)}-{_digits(rng, 1, 3)}-{_digits(rng, 6, 8)}",
            f"{_digits(rng, 3)}.{_digits(rng, 3)}.{_digits(rng, 4)}",
            f"0{_digits(rng, 8, 10)}",
        ]
    )


def code(rng: random.Random) -> str:
    """Letters and digits that name one thing: H-6927, A12B34, CS00012345, (867388-U)."""
    return rng.choice(
        [
            f"{_capitals(rng, 1, 3)}-{_digits(rng, 2, 6)}",
            f"{_capitals(rng, 1)}{_digits(rng, 2)}{_capitals(rng, 1)}{_digits(rng, 2)}",
            f"{_capitals(rng, 1, 3)}{_digits(rng, 2, 8)}",
            f"{_capitals(rng, 2, 3)}{_digits(rng, 2)}{_capitals(rng, 1, 2)}",
            f"{_digits(rng, 1, 3)}{_capitals(rng, 1, 3)}{_digits(rng, 1, 4)}",
            f"({_digits(rng, 6)}-{_capitals(rng, 1)})",
            f"{_capitals(rng, 1, 3)}/{_digits(rng, 2, 4)}/{_digits(rng, 2, 5)}",
            f"#{_digits(rng, 3, 8)}",
            f"{_digits(rng, 3, 5)}-{_digits(rng, 3, 5)}",
            f"{_digits(rng, 8, 13)}",
            f"000{_digits(rng, 5, 9)}",
            f"{_digits(rng, 5)}",
        ]
    )


def figure(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.35:
        return amount(rng)
    if kind < 0.5:
        return date(rng)
    if kind < 0.56:
        return hour(rng)
    if kind < 0.66:
        return telephone(rng)
    if kind < 0.9:
        return code(rng)
    return _digits(rng, 1, 3) + rng.choice(UNITS)


def misspelt(word: str, rng: random.Random) -> str:
    """A letter changed, left out, put in or swapped with the next one."""
    at, letter = rng.randrange(len(word)), rng.choice(string.ascii_lowercase)
    return rng.choice(
        [
            word[:at] + letter + word[at + 1 :],
            word[:at] + letter + word[at:],
            word[:at] + word[at + 1 :],
            word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :],
        ]
    )


def till_line(names: Sequence[str], rng: random.Random) -> list[str]:
    """The words of one line of a receipt, a bill or a ticket."""
    name, other = rng.choice(names).capitalize(), rng.choice(names).capitalize()
    lines = [
        lambda: f"{rng.choice(SIGNS)} {rng.choice([':', ''])} {amount(rng)}",
        lambda: f"{rng.choice(SIGNS)} {rng.choice(SIGNS)} {amount(rng)}",
        lambda: f"{rng.choice(SIGNS)} {rng.randint(1, 25)}% {amount(rng)}",
        lambda: f"{rng.choice(HEADS)} {rng.choice(['No:', 'No.', '#', 'NO :', 'ID:'])} {code(rng)}",
        lambda: f"{rng.choice(['Date:', 'DATE :', 'Date/Time', 'Date'])} {date(rng)} {hour(rng)}",
        lambda: f"{rng.choice(['Tel:', 'TEL :', 'Tel No.', 'FAX:', 'Phone'])} {telephone(rng)}",
        lambda: f"{rng.randint(1, 20)} x {amount(rng)} {amount(rng)}",
        lambda: f"{name} {other} {rng.choice(FIRMS)}",
        lambda: f"{rng.randint(1, 300)}, {rng.choice(STREETS)} {name}, {_digits(rng, 5)} {other}",
        lambda: f"{rng.choice(HEADS)}: {name}",
        lambda: rng.choice(THANKS),
        lambda: f"GST {rng.choice(['Reg', 'ID', 'No'])}: {_digits(rng, 9, 12)}",
    ]
    return rng.choice(lines)().split()
