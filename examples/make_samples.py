"""Write the sample PDFs of this folder. Needs reportlab: pip install reportlab, then python make_samples.py

Everything in them is made up by us and under the project's licence. Only the standard PDF fonts are used, so
no font file is embedded. Every run writes the same bytes with the same versions of the libraries.
"""

# ruff: noqa: E501 - running text is easier to change in whole lines

from __future__ import annotations

import io
import random
from pathlib import Path

import pypdfium2 as pdfium
from PIL import Image, ImageChops, ImageFilter
from reportlab import rl_config
from reportlab.lib import colors
from reportlab.lib.enums import TA_JUSTIFY
from reportlab.lib.pagesizes import A4, landscape
from reportlab.lib.styles import ParagraphStyle, getSampleStyleSheet
from reportlab.lib.units import cm, mm
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    FrameBreak,
    NextPageTemplate,
    PageBreak,
    PageTemplate,
    Paragraph,
    SimpleDocTemplate,
    Spacer,
    Table,
    TableStyle,
)

HERE = Path(__file__).parent
STYLES = getSampleStyleSheet()
BODY = ParagraphStyle("body", parent=STYLES["BodyText"], fontName="Times-Roman", fontSize=11, leading=15)
SEA = colors.HexColor("#14507a")
SAND = colors.HexColor("#f3ead7")
NIGHT = colors.HexColor("#101b3b")
GOLD = colors.HexColor("#ffcf5c")


def heading(text: str, size: int = 16, color: colors.Color = SEA) -> Paragraph:
    style = ParagraphStyle(
        "heading", fontName="Helvetica-Bold", fontSize=size, leading=size * 1.3, textColor=color, spaceAfter=6
    )
    return Paragraph(text, style)


def paragraphs(*texts: str, style: ParagraphStyle = BODY) -> list[Flowable]:
    return [Paragraph(text, style) for text in texts]


class BarChart(Flowable):
    """Upright bars with their values, in one colour."""

    def __init__(self, title: str, bars: dict[str, float], unit: str) -> None:
        super().__init__()
        self.title, self.bars, self.unit = title, bars, unit
        self.width, self.height = 15 * cm, 6.5 * cm

    def draw(self) -> None:
        canvas = self.canv
        canvas.setFont("Helvetica-Bold", 10)
        canvas.drawString(0, self.height - 10, f"{self.title} ({self.unit})")
        step = self.width / len(self.bars)
        tallest = max(self.bars.values())
        for place, (label, value) in enumerate(self.bars.items()):
            height = (self.height - 1.9 * cm) * value / tallest
            canvas.setFillColor(SEA)
            canvas.rect(place * step + step * 0.2, 14, step * 0.6, height, stroke=0, fill=1)
            canvas.setFillColor(colors.black)
            canvas.setFont("Helvetica", 9)
            canvas.drawCentredString(place * step + step / 2, 3, label)
            canvas.drawCentredString(place * step + step / 2, height + 18, f"{value:g}")


def report(path: Path) -> None:
    """Three pages: a cover with a summary, the year's maintenance, money and plans."""
    story: list[Flowable] = [
        Spacer(1, 3 * cm),
        heading("Skerrow Harbour Tidal Mill", 26),
        heading("Annual report of the trustees", 16, colors.grey),
        Spacer(1, 1 * cm),
        *paragraphs(
            "The old tide mill at the mouth of Skerrow Harbour was built to grind barley. Since its restoration "
            "it has made electricity instead: the flood fills the millpond twice a day, and on the ebb the water "
            "leaves through a single low-head turbine below the wheelhouse.",
            "This was the mill's best year so far. The turbine ran for 4,912 hours and delivered 386 megawatt "
            "hours to the quay, the fish market and the ice house. Spring tides in March and September brought "
            "the highest daily yields; the neap tides of June the lowest.",
            "About 2,300 visitors crossed the causeway. The eel ladder, opened in April, was used by an "
            "estimated nine thousand elvers, counted by volunteers with lanterns and great patience.",
        ),
        Spacer(1, 0.6 * cm),
        BarChart(
            "Electricity delivered by quarter",
            {
                "January to March": 104,
                "April to June": 81,
                "July to September": 97,
                "October to December": 104,
            },
            "megawatt hours",
        ),
        PageBreak(),
        heading("Maintenance of the turbine"),
        *paragraphs(
            "Routine maintenance of the turbine was carried out in the slack week of June, when neap tides make "
            "the loss smallest. The draft tube was drained, the runner blades were scraped clear of barnacles "
            "and mussels, and the lower guide bearing was replaced after 31,000 hours of service. Its bronze "
            "bush had worn by 0.8 millimetres, close to the limit that the makers allow.",
            "In November a drifting timber broke two bars of the trash rack and chipped one runner blade. Divers "
            "from the lifeboat station fitted a temporary steel plate within the same ebb. The blade was built "
            "up by welding and balanced at the boatyard; the mill stood still for eleven days.",
            "The sluice gates were greased monthly. Gate three still leaks at its sill, about forty litres a "
            "second at high water, and a new oak sill has been ordered for the coming summer.",
        ),
        Spacer(1, 0.4 * cm),
        Table(
            [
                ["Date", "Work", "Hours idle", "Cost"],
                ["4 February", "Gearbox oil changed, filter magnet cleaned", "6", "410"],
                ["9 to 15 June", "Runner cleaned, guide bearing replaced", "158", "12,850"],
                ["30 August", "Vibration sensor renewed", "3", "295"],
                ["12 to 23 November", "Trash rack and runner blade repaired", "262", "9,140"],
            ],
            colWidths=[3.4 * cm, 7.6 * cm, 2.4 * cm, 2.2 * cm],
            style=TableStyle(
                [
                    ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 9),
                    ("FONT", (0, 1), (-1, -1), "Helvetica", 9),
                    ("BACKGROUND", (0, 0), (-1, 0), SAND),
                    ("GRID", (0, 0), (-1, -1), 0.4, colors.grey),
                    ("ALIGN", (2, 0), (-1, -1), "RIGHT"),
                ]
            ),
        ),
        PageBreak(),
        heading("Money, people and plans"),
        *paragraphs(
            "Income from electricity was 57,900 crowns, from visitors and the tea room 21,400, and from the "
            "friends of the mill 8,250. Expenses came to 79,300 crowns, of which repairs took 22,695. The "
            "trustees put 5,000 crowns aside for the dredging of the millpond, which silts up by four "
            "centimetres a year.",
            "Agnes Thorvald retired as millwright after twenty-six years. Her apprentice, Joss Penhallow, now "
            "keeps the wheelhouse. The trustees thank both, and the harbour master, for many wet nights.",
            "Plans for next year: the oak sill of gate three; a second eel ladder at the spillway; school "
            "visits with a model of the sluice; and a study of whether a small battery could carry the ice "
            "house through the slack between two tides.",
        ),
    ]
    document = SimpleDocTemplate(str(path), pagesize=A4, title="Skerrow Harbour Tidal Mill: annual report")
    document.build(story)


def slides(path: Path) -> None:
    """Four landscape slides, light on dark, with drawings."""
    width, height = landscape(A4)
    canvas = Canvas(str(path), pagesize=(width, height), invariant=1)
    canvas.setTitle("A small observatory on the roof")
    pages = [
        (
            "A small observatory on the roof",
            ["What a village school can see", "Talk for the parents' evening"],
        ),
        (
            "The telescope",
            [
                "Dobsonian reflector, 25 centimetre mirror, plywood mount",
                "Ground and figured by the pupils in two winters",
                "Eyepieces: 32 mm for nebulae, 9 mm for planets",
                "Collimation before every night, with a laser and a paper target",
            ],
        ),
        (
            "What we observed this autumn",
            [
                "Saturn with its rings nearly edge-on",
                "Variable star Mira fading by two magnitudes in six weeks",
                "Forty-one Leonid meteors in one hour on 17 November",
                "The Andromeda galaxy, a smudge until the street lamps went out",
            ],
        ),
        (
            "Dark skies need neighbours",
            [
                "Shielded lamps on Chapel Lane cut the glow by a third",
                "Next: switch off the tennis court lights after ten",
                "Cost of twelve lamp shades: 540 crowns",
                "Please bring blankets, cocoa and red torches",
            ],
        ),
    ]
    sky = random.Random(7)
    for number, (title, lines) in enumerate(pages, start=1):
        canvas.setFillColor(NIGHT)
        canvas.rect(0, 0, width, height, stroke=0, fill=1)
        canvas.setFillColor(colors.white)
        for _ in range(90):
            canvas.circle(
                sky.uniform(0, width), sky.uniform(0, height), sky.uniform(0.2, 1.3), stroke=0, fill=1
            )
        canvas.setFillColor(GOLD)
        canvas.circle(width - 3.5 * cm, height - 3.5 * cm, 1.6 * cm, stroke=0, fill=1)
        canvas.setFillColor(NIGHT)
        canvas.circle(width - 2.9 * cm, height - 3.1 * cm, 1.5 * cm, stroke=0, fill=1)
        canvas.setFillColor(GOLD)
        canvas.setFont("Helvetica-Bold", 34)
        canvas.drawString(2 * cm, height - 4 * cm, title)
        canvas.setFillColor(colors.white)
        for place, line in enumerate(lines):
            canvas.setFont("Helvetica", 21)
            canvas.drawString(2.4 * cm, height - 6.8 * cm - place * 1.7 * cm, "\u2022 " + line)
        canvas.setFont("Helvetica-Oblique", 11)
        canvas.drawString(2 * cm, 1 * cm, f"Hollin School Observatory, slide {number}")
        canvas.showPage()
    canvas.save()


def paper(path: Path) -> None:
    """Two columns and a title across both, as in a journal."""
    document = BaseDocTemplate(str(path), pagesize=A4, title="Hydration and crumb in rye sourdough")
    width, height = A4
    margin, gap, top = 1.8 * cm, 0.7 * cm, 5.6 * cm
    column = (width - 2 * margin - gap) / 2
    frames = [
        Frame(margin, height - margin - top, width - 2 * margin, top, id="title"),
        Frame(margin, margin, column, height - 2 * margin - top, id="left"),
        Frame(margin + column + gap, margin, column, height - 2 * margin - top, id="right"),
    ]
    document.addPageTemplates(PageTemplate(id="first", frames=frames))
    text = ParagraphStyle(
        "text", fontName="Times-Roman", fontSize=9.5, leading=11.6, alignment=TA_JUSTIFY, spaceAfter=4
    )
    small = ParagraphStyle("small", parent=text, fontName="Times-Italic", fontSize=9)

    def section(name: str) -> Paragraph:
        return heading(name, 11, colors.black)

    story: list[Flowable] = [
        NextPageTemplate("first"),
        heading("Hydration and crumb in rye sourdough: forty loaves from one oven", 18, colors.black),
        *paragraphs("I. Mortensen and P. Abara, Quayside Bakery School", style=small),
        *paragraphs(
            "<b>Abstract.</b> We baked forty loaves of rye sourdough at five hydrations between 68 and 92 per "
            "cent, with one starter and one wood-fired oven, and measured loaf volume, crumb porosity and acidity. "
            "Volume peaks at 80 per cent hydration; beyond it the crumb turns gummy unless the loaf rests for a "
            "day before slicing. Fermentation temperature mattered more than the age of the starter.",
            style=text,
        ),
        FrameBreak(),
        section("1. Introduction"),
        *paragraphs(
            "Bakers argue about water. Wet doughs are said to give open crumb and long keeping; dry ones are "
            "easier to shape. For wheat the question has been studied at length, but rye holds its gas not by "
            "gluten but by pentosans, which bind several times their weight in water.",
            "Sourdough complicates matters further. Lactic and acetic acid slow the amylase that would otherwise "
            "liquefy the starch in the oven, so that an under-fermented loaf collapses whatever its hydration.",
            style=text,
        ),
        section("2. Method"),
        *paragraphs(
            "A single rye starter, refreshed every twelve hours, raised all loaves. Flour was stone-ground "
            "wholemeal from one harvest. Dough was mixed for six minutes, fermented at 24 or 30 degrees Celsius "
            "until it had grown by half, shaped with wet hands and proved in willow baskets.",
            "Loaves of 900 grams were baked on the hearth for fifty minutes at a falling heat from 260 degrees. "
            "Volume was taken by rapeseed displacement. Porosity was read from scanned slices, acidity by "
            "titration with sodium hydroxide.",
            style=text,
        ),
        FrameBreak(),
        section("3. Results"),
        Table(
            [
                ["Hydration", "Volume", "Porosity", "Acidity"],
                ["68 %", "1.52 l", "0.41", "9.8"],
                ["74 %", "1.66 l", "0.46", "10.1"],
                ["80 %", "1.81 l", "0.52", "10.6"],
                ["86 %", "1.74 l", "0.55", "10.9"],
                ["92 %", "1.58 l", "0.49", "11.2"],
            ],
            style=TableStyle(
                [
                    ("FONT", (0, 0), (-1, -1), "Times-Roman", 9),
                    ("LINEABOVE", (0, 0), (-1, 0), 0.8, colors.black),
                    ("LINEBELOW", (0, 0), (-1, 0), 0.4, colors.black),
                    ("LINEBELOW", (0, -1), (-1, -1), 0.8, colors.black),
                ]
            ),
        ),
        *paragraphs("Table 1. Means of eight loaves at each hydration.", style=small),
        *paragraphs(
            "Volume rose to 1.81 litres at 80 per cent and fell again. At 92 per cent the loaves spread on the "
            "peel and the crust split along the side. Warm fermentation gave milder loaves: the ratio of lactic "
            "to acetic acid doubled between 24 and 30 degrees.",
            "A panel of seven tasters preferred the loaf of 86 per cent after a day's rest, praising a moist, "
            "springy crumb and a smell of caraway, although no caraway had been used.",
            style=text,
        ),
        section("4. Conclusion"),
        *paragraphs(
            "For this flour, four parts of water to five of rye is a good place to begin. Bakers who want more "
            "water should give the loaf more acid and more patience.",
            style=text,
        ),
    ]
    document.build(story)


def table(path: Path) -> None:
    """One page that is mostly a table of numbers."""
    rows = [["Day", "High water", "Metres", "Low water", "Metres", "Moon"]]
    moons = {3: "new moon", 10: "first quarter", 18: "full moon", 25: "last quarter"}
    tides = random.Random(11)
    minutes = 312
    for day in range(1, 29):
        spring = abs((day - 3) % 15 - 7.5) / 7.5
        high = 3.1 + 1.6 * spring + tides.uniform(-0.1, 0.1)
        low = 1.5 - 1.1 * spring + tides.uniform(-0.1, 0.1)
        ebb = (minutes + 374) % 1440
        rows.append(
            [
                f"{day} March",
                f"{minutes // 60:02d}:{minutes % 60:02d}",
                f"{high:.1f}",
                f"{ebb // 60:02d}:{ebb % 60:02d}",
                f"{low:.1f}",
                moons.get(day, ""),
            ]
        )
        minutes = (minutes + 50) % 1440
    style = TableStyle(
        [
            ("FONT", (0, 0), (-1, 0), "Helvetica-Bold", 10),
            ("FONT", (0, 1), (-1, -1), "Courier", 9.5),
            ("ROWBACKGROUNDS", (0, 1), (-1, -1), [colors.white, SAND]),
            ("LINEBELOW", (0, 0), (-1, 0), 1, SEA),
            ("TOPPADDING", (0, 0), (-1, -1), 2),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 2),
        ]
    )
    story: list[Flowable] = [
        heading("Tide table for Skerrow Harbour, March", 18),
        *paragraphs(
            "Heights above chart datum. Ferries to Gannet Island sail two hours either side of high water; there "
            "is no crossing when the swell at the bar exceeds two metres."
        ),
        Spacer(1, 4 * mm),
        Table(rows, colWidths=[2.6 * cm, 2.8 * cm, 2 * cm, 2.8 * cm, 2 * cm, 3.4 * cm], style=style),
    ]
    SimpleDocTemplate(str(path), pagesize=A4, title="Tide table").build(story)


def scan(path: Path) -> None:
    """A page that is only a picture: typed, printed, laid crookedly on a scanner, never recognised."""
    letter = io.BytesIO()
    canvas = Canvas(letter, pagesize=A4, invariant=1)
    canvas.setFont("Courier-Bold", 15)
    canvas.drawString(2.5 * cm, 26 * cm, "LOG OF THE LIGHTHOUSE, GANNET ISLAND")
    canvas.setFont("Courier", 11.5)
    lines = """
        14 January. Gale from the north-west since noon. Spray over
        the gallery. Lamp lit at 16:10, fog horn from 18:00 on.

        15 January. Wind backing. A schooner, the MARIGOLD, ran
        past the reef at dawn with her topsail gone. Signalled to
        the harbour; pilot cutter went out and brought her in.

        17 January. Calm. Polished the lens and the brass. Wick of
        the spare burner replaced. Paraffin for nine weeks in store.
        Two seals on the landing, and the first gannets back.

        20 January. Relief boat with mail, flour, lamp glass and a
        new barometer, the old one having stuck at STORMY in the
        finest weather. Keeper Ransome ashore with toothache.

        22 January. Snow. Horn compressor frozen; thawed the valve
        with kettles. Beam seen from Skerrow Head, 14 miles, says
        the coastguard by telephone.

                                     M. Haldane, keeper
    """
    for place, line in enumerate(lines.strip("\n").splitlines()):
        canvas.drawString(2.5 * cm, 24.2 * cm - place * 0.72 * cm, line.removeprefix("        "))
    canvas.save()
    document = pdfium.PdfDocument(letter.getvalue())
    clean = document[0].render(scale=150 / 72).to_pil().convert("L")
    picture = _worn(clean)
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=55)
    canvas = Canvas(str(path), pagesize=A4, invariant=1)
    canvas.setTitle("Scan 0001")
    canvas.drawImage(ImageReader(io.BytesIO(buffer.getvalue())), 0, 0, *A4)
    canvas.showPage()
    canvas.save()


def _worn(page: Image.Image) -> Image.Image:
    """Slight skew, soft ink, grain, and a shadow along the spine."""
    grain = random.Random(3)
    soft = page.filter(ImageFilter.GaussianBlur(0.7)).point(lambda ink: 35 + ink * 0.82)
    turned = soft.rotate(1.1, Image.Resampling.BICUBIC, fillcolor=236)
    noise = Image.frombytes(
        "L", turned.size, bytes(grain.choices(range(0, 22), k=turned.width * turned.height))
    )
    shadow = (
        Image.linear_gradient("L").rotate(90).resize(turned.size).point(lambda step: max(0, 60 - step) // 2)
    )
    return ImageChops.subtract(ImageChops.subtract(turned, noise), shadow)


def main() -> None:
    rl_config.invariant = 1  # no date in the files: the same bytes every time
    for make in (report, slides, paper, table, scan):
        path = HERE / f"{make.__name__}.pdf"
        make(path)
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
