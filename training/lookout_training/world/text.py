"""Printed text: fonts, words and the position of each character."""

from __future__ import annotations

import random
import string
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

# Every character that may be printed.
ALPHABET = string.ascii_uppercase + string.ascii_lowercase + string.digits + "$.:%!?-"
GLYPHS = ALPHABET + " "  # The classes of the coverage head, with the blank between two words.
FONT_ROOT = Path("/usr/share/fonts")  # Debian's; FONTS and UNSEEN_FONTS are of fonts-dejavu and fonts-liberation.
FONTS = [
    "truetype/dejavu/DejaVuSans.ttf",
    "truetype/dejavu/DejaVuSans-Bold.ttf",
    "truetype/dejavu/DejaVuSansCondensed.ttf",
    "truetype/dejavu/DejaVuSansMono.ttf",
    "truetype/dejavu/DejaVuSerif.ttf",
    "truetype/dejavu/DejaVuSerif-Bold.ttf",
    "truetype/liberation/LiberationSans-Regular.ttf",
    "truetype/liberation/LiberationSans-Bold.ttf",
    "truetype/liberation/LiberationSerif-Regular.ttf",
    "truetype/liberation/LiberationSerif-Bold.ttf",
    "truetype/liberation/LiberationMono-Regular.ttf",
    "truetype/liberation/LiberationMono-Bold.ttf",
    "truetype/liberation/LiberationSansNarrow-Bold.ttf",
    "truetype/dejavu/DejaVuSansCondensed-Oblique.ttf",
    "truetype/dejavu/DejaVuSansMono-Bold.ttf",
]
# For training only, where they are installed (`installed`; training/README.md names the packages). Of other families than UNSEEN_FONTS.
MORE_FONTS = [
    "truetype/lato/Lato-Regular.ttf",
    "truetype/lato/Lato-Bold.ttf",
    "truetype/lato/Lato-Italic.ttf",
    "truetype/lato/Lato-BlackItalic.ttf",
    "truetype/open-sans/OpenSans-Regular.ttf",
    "truetype/open-sans/OpenSans-Italic.ttf",
    "truetype/open-sans/OpenSans-BoldItalic.ttf",
    "truetype/open-sans/OpenSans-CondBold.ttf",
    "truetype/roboto/unhinted/RobotoTTF/Roboto-Regular.ttf",
    "truetype/roboto/unhinted/RobotoTTF/Roboto-Italic.ttf",
    "truetype/roboto/unhinted/RobotoTTF/Roboto-BoldItalic.ttf",
    "truetype/roboto/unhinted/RobotoCondensed-Regular.ttf",
    "truetype/roboto/unhinted/RobotoCondensed-BoldItalic.ttf",
    "truetype/crosextra/Caladea-Regular.ttf",
    "truetype/crosextra/Caladea-Italic.ttf",
    "truetype/crosextra/Caladea-BoldItalic.ttf",
    "truetype/charis/CharisSIL-Regular.ttf",
    "truetype/charis/CharisSIL-Italic.ttf",
    "truetype/charis/CharisSIL-BoldItalic.ttf",
    "truetype/paratype/PTF55F.ttf",
    "truetype/paratype/PTF56F.ttf",
    "truetype/paratype/PTF76F.ttf",
    "truetype/paratype/PTS55F.ttf",
    "truetype/paratype/PTS56F.ttf",
    "truetype/paratype/PTN57F.ttf",
    "truetype/paratype/PTM55F.ttf",
    "truetype/paratype/PTM75F.ttf",
    "truetype/vollkorn/Vollkorn-Regular.ttf",
    "truetype/vollkorn/Vollkorn-Italic.ttf",
    "truetype/vollkorn/Vollkorn-BoldItalic.ttf",
    "truetype/noto/NotoSans-Regular.ttf",
    "truetype/noto/NotoSans-BoldItalic.ttf",
    "truetype/noto/NotoSerif-Regular.ttf",
    "truetype/noto/NotoSerif-Bold.ttf",
    "truetype/noto/NotoSerif-Italic.ttf",
    "truetype/noto/NotoSerif-BoldItalic.ttf",
    "truetype/jetbrains-mono/JetBrainsMono-Regular.ttf",
    "truetype/jetbrains-mono/JetBrainsMono-Italic.ttf",
    "truetype/jetbrains-mono/JetBrainsMono-BoldItalic.ttf",
    "truetype/mononoki/mononoki-Regular.ttf",
    "truetype/mononoki/mononoki-Bold-Italic.ttf",
    "truetype/quicksand/Quicksand-Bold.ttf",
    "truetype/play/Play-Bold.ttf",
    "fonts-go/Go-Italic.ttf",
    "fonts-go/Go-Mono.ttf",
    "fonts-go/Go-Mono-Italic.ttf",
    "fonts-go/Go-Mono-Bold-Italic.ttf",
    "opentype/artemisia/GFSArtemisiaIt.otf",
    "opentype/artemisia/GFSArtemisiaBoldIt.otf",
    "opentype/b612/B612-BoldItalic.otf",
    "opentype/b612/B612Mono-Regular.otf",
    "opentype/b612/B612Mono-Italic.otf",
    "opentype/cabin/Cabin-Italic.otf",
    "opentype/cabin/Cabin-BoldItalic.otf",
    "opentype/comic-neue/ComicNeue-Bold.otf",
    "opentype/courier-prime/Courier Prime.otf",
    "opentype/courier-prime/Courier Prime Bold Italic.otf",
    "opentype/courier-prime/Courier Prime Sans Bold Italic.otf",
    "opentype/didot/GFSDidotBoldItalic.otf",
    "opentype/ebgaramond/EBGaramond12-Italic.otf",
    "opentype/inter/Inter-Regular.otf",
    "opentype/inter/Inter-Italic.otf",
    "opentype/inter/Inter-BoldItalic.otf",
    "opentype/junicode/JunicodeTwoBeta-SemiCondensedMedium.otf",
    "opentype/junicode/JunicodeTwoBeta-BoldItalic.otf",
    "opentype/linux-libertine/LinBiolinum_RI.otf",
    "opentype/linux-libertine/LinLibertine_RB.otf",
    "opentype/linux-libertine/LinLibertine_RI.otf",
    "opentype/linux-libertine/LinLibertine_RBI.otf",
    "opentype/roboto/slab/RobotoSlab-Bold.otf",
    "truetype/andika/Andika-BoldItalic.ttf",
    "truetype/anonymous-pro/Anonymous Pro I.ttf",
    "truetype/anonymous-pro/Anonymous Pro BI.ttf",
    "truetype/averia-gwf/AveriaSerifGWF-BoldItalic.ttf",
    "truetype/clear-sans/ClearSans-Italic.ttf",
    "truetype/clear-sans/ClearSans-BoldItalic.ttf",
    "truetype/cmu/cmunit.ttf",
    "truetype/cmu/cmunti.ttf",
    "truetype/fantasque-sans/Normal/TTF/FantasqueSansMono-BoldItalic.ttf",
    "truetype/fonts-oldstandard/OldStandard-Italic.ttf",
    "truetype/fonts-yrsa-rasa/Yrsa-BoldItalic.ttf",
    "truetype/gentiumplus/GentiumPlus-Italic.ttf",
    "truetype/gentiumplus/GentiumPlus-BoldItalic.ttf",
    "truetype/karla/Karla-BoldItalic.otf",
    "truetype/tuffy/Tuffy_Italic.ttf",
    "truetype/tuffy/Tuffy_Bold_Italic.ttf",
]
# For the shifted world of the evaluation only.
UNSEEN_FONTS = [
    "truetype/dejavu/DejaVuSerif-Italic.ttf",
    "truetype/dejavu/DejaVuSerifCondensed-Bold.ttf",
    "truetype/dejavu/DejaVuSans-Oblique.ttf",
    "truetype/liberation/LiberationSans-Italic.ttf",
    "truetype/liberation/LiberationSerif-BoldItalic.ttf",
    "truetype/liberation/LiberationMono-BoldItalic.ttf",
]
WORDS = """
open stop exit cafe sale menu taxi hotel bank bar bus shop park zone post food pizza tea milk bread water juice fish
cold hot new old free sold out push pull wait walk slow fast left right up down north south east west door gate
room floor area city town road street book note mail home work play game music radio phone photo video movie star
sun moon rain snow wind fire tree lake hill rock sand gold blue red green black white pink gray cat dog bird horse
cow pig duck lion bear wolf frog king queen boy girl baby team club band art lab sky air sea oil gas car van bike
train plane boat ship lift key lock box bag hat coat shoe ring coin cash card rent loan tax shop bake cook soup
rice egg nuts salt corn lime kiwi plum pear fig apple lemon mango grape hello world yes no ok go win best good
nice cool love hope luck peace happy smile thanks welcome please today now later spring summer autumn winter
""".split()


def installed(fonts: list[str]) -> list[str]:
    """The fonts that are installed on this machine."""
    return [name for name in fonts if (FONT_ROOT / name).exists()]


@lru_cache(maxsize=2048)
def load_font(name: str, size: int) -> ImageFont.FreeTypeFont:
    """A font of FONT_ROOT at `size` pixels per em."""
    return ImageFont.truetype(str(FONT_ROOT / name), size)


@dataclass(frozen=True)
class Lettering:
    """A font, possibly with its letters slanted, widened, narrowed or thickened to imitate other fonts."""

    font: ImageFont.FreeTypeFont
    stretch: float = 1.0  # Of the width.
    slant: float = 0.0  # Pixels to the right per pixel upwards.
    thick: bool = False

    @property
    def as_designed(self) -> bool:
        return self.stretch == 1.0 and self.slant == 0.0 and not self.thick

    def ink(self, text: str) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the ink, relative to the pen's start at the top of the line."""
        if self.as_designed:
            return self.font.getbbox(text)
        mask, start = self.mask(text)
        left, top, right, bottom = mask.point(lambda value: 255 * (value > INKED)).getbbox() or (0, 0, *mask.size)
        return start + left, top, start + right, bottom

    def advances(self, text: str) -> list[float]:
        """Where each character begins and where the last one ends, relative to the pen's start."""
        return [self.stretch * self.font.getlength(text[:index]) for index in range(len(text) + 1)]

    def print(self, picture: Image.Image, x: float, y: float, text: str, fill: tuple[int, int, int]) -> None:
        """(x, y): the pen's start."""
        if self.as_designed:
            ImageDraw.Draw(picture).text((x, y), text, font=self.font, fill=fill)
            return
        mask, start = self.mask(text)
        picture.paste(fill, (round(x + start), round(y)), mask)

    @lru_cache(maxsize=32)  # A text is measured, placed and printed.
    def mask(self, text: str) -> tuple[Image.Image, int]:
        """How much of each pixel is covered from the top of the line, and where its left side is from the pen's start. Drawn at twice the size."""
        large = load_font(str(Path(self.font.path).relative_to(FONT_ROOT)), 2 * int(self.font.size))
        stroke = 1 if self.thick else 0
        _, top, right, bottom = large.getbbox(text, stroke_width=stroke)
        middle = (top + bottom) / 2  # The height at which slanting moves nothing, so that characters stay in place.
        spare = 2 * int(abs(self.slant) * (bottom - top) / 4 + 3)
        height = bottom + spare
        plain = Image.new("L", (int(right + spare), int(height)))
        ImageDraw.Draw(plain).text((0, 0), text, font=large, fill=255, stroke_width=stroke)
        size = 2 * int((right * self.stretch + 2 * spare) / 2 + 1), 2 * int(height / 2 + 1)
        across = 1 / self.stretch
        shift = -(spare + self.slant * middle) * across
        slanted = plain.transform(size, Image.Transform.AFFINE, (across, self.slant * across, shift, 0, 1, 0), Image.Resampling.BICUBIC)
        return slanted.reduce(2), -spare // 2


INKED = 60  # Of 255: a pixel that is covered so much counts for a text's box.


def random_lettering(rng: random.Random, font: ImageFont.FreeTypeFont, altered: float = 0.0) -> Lettering:
    """`altered`: share of the letterings that no font's designer has drawn."""
    if not altered or rng.random() >= altered:
        return Lettering(font)
    slant = rng.uniform(-0.1, 0.35) if rng.random() < 0.7 else 0.0
    return Lettering(font, rng.uniform(0.82, 1.2), slant, font.size >= 15 and rng.random() < 0.25)


CONSONANTS, VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"


def made_up_word(rng: random.Random) -> str:
    """A pronounceable made-up word of 2 to 7 letters. The model has to read it, because it cannot know it."""
    letters = [rng.choice(VOWELS if (index + rng.randrange(2)) % 2 else CONSONANTS) for index in range(rng.randint(2, 7))]
    return "".join(letters)


def strange_word(rng: random.Random) -> str:
    """2 to 8 letters in any order, half of the time pronounceable, that can only be read letter by letter."""
    if rng.random() < 0.5:
        return made_up_word(rng)
    return "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(2, 8)))


def random_line(rng: random.Random, strange: float = 0.0) -> str:
    """A line of a sign: one to three words, or a word and a number. `strange` is the share of lines without a known word."""
    if strange and rng.random() < strange:
        return " ".join(_cased(rng, strange_word(rng)) if rng.random() < 0.85 else str(rng.randrange(10000)) for _ in range(rng.choice((1, 1, 2, 2, 3))))
    words = [rng.choice(WORDS) if rng.random() < 0.7 else made_up_word(rng) for _ in range(rng.choice((1, 1, 1, 2, 2, 3)))]
    if rng.random() < 0.15:
        words.append(str(rng.randrange(1000)))
    case = rng.choice((str.upper, str.upper, str.capitalize, str.lower))
    return " ".join(case(word) for word in words)


def random_text(rng: random.Random, strange: float = 0.0) -> str:
    """A word, a code, a number, a price, a time or two words; 1 to 12 characters of ALPHABET and blanks. `strange` as of a line."""
    if strange and rng.random() < strange:
        if rng.random() < 0.3:
            return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 7)))
        return _cased(rng, strange_word(rng)) + rng.choice(("", "", "", "", "!", "?", ".", str(rng.randrange(100))))
    choice = rng.random()
    if choice < 0.15:
        return _cased(rng, made_up_word(rng))
    if choice < 0.45:
        return _cased(rng, rng.choice(WORDS))
    if choice < 0.60:
        return "".join(rng.choice(string.ascii_uppercase + string.digits) for _ in range(rng.randint(1, 5)))
    if choice < 0.75:
        return str(rng.randrange(10 ** rng.randint(1, 4)))
    if choice < 0.82:
        return f"${rng.randint(0, 99)}.{rng.randrange(100):02d}"
    if choice < 0.89:
        return f"{rng.randrange(24):02d}:{rng.randrange(60):02d}"
    if choice < 0.93:
        return f"{rng.randint(1, 100)}%"
    if choice < 0.95:
        return _cased(rng, rng.choice(WORDS)) + rng.choice("!?")
    case = rng.choice((str.upper, str.capitalize))
    return f"{case(rng.choice(WORDS))} {case(rng.choice(WORDS))}"


def _cased(rng: random.Random, word: str) -> str:
    return rng.choice((str.upper, str.upper, str.capitalize, str.lower))(word)
