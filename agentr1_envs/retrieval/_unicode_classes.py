"""Unicode character classes the word breaker needs, as ranges.

Derived from Unicode's WordBreakProperty, LineBreak, Scripts and emoji data files (Unicode licence).
Each table is a list of hexadecimal `skip+length` pairs: `skip` counts from the end of the last
range, `length` (left out when 0) from the first character to the last.
"""

from __future__ import annotations


def ranges(table: str) -> list[tuple[int, int]]:
    """Decode a table into (first, last) code points, both inclusive."""
    decoded, position = [], 0
    for pair in table.split():
        skip, _, length = pair.partition("+")
        first = position + int(skip, 16)
        position = first + (int(length, 16) if length else 0)
        decoded.append((first, position))
    return decoded


def char_class(*tables: str) -> str:
    """The body of a regular expression's character class that matches these tables."""
    return "".join(
        f"\\U{first:08x}" + (f"-\\U{last:08x}" if last > first else "")
        for table in tables
        for first, last in ranges(table)
    )


# letters of alphabets and Hangul (ALetter).
LETTER = (
    "41+19 7+19 30 b 3 2 6+16 2+1e 2+1df 7+21 71+4 2+1 3+3 2 7 2+2 2 2+13 2+52 2+8a 9+a5 2+25 2+4 "
    "2 2+28 2+2 67 2d+2a 24+1 2+62 2 10+1 8+1 b+2 3 10+1 2+1d 1e+58 c 19+20 a+1 5 6+15 5 a 4 "
    "18+18 8+a 6+17 2+6 11+29 3b+35 4 13 8+9 10+f 5+7 3+1 3+15 2+6 2 4+3 4 11 e+1 2+2 f+1 b 9+5 "
    "5+1 3+15 2+6 2+1 2+1 2+1 20+3 2 14+2 11+8 2+2 2+15 2+6 2+1 2+4 4 13 10+1 18 c+7 3+1 3+15 2+6 "
    "2+1 2+4 4 1f+1 2+2 10 12 2+5 4+2 2+3 4+1 2 2+1 4+1 4+2 4+b 17 35+7 2+2 2+16 2+f 4 1b+2 2+1 "
    "3+1 1f 5+7 2+2 2+16 2+9 2+4 4 1f+2 2+1 10+1 12+8 2+2 2+28 3 11 6+2 9+2 19+5 6+11 4+17 2+8 2 "
    "3+6 13a 40+7 2+23 1c+4 114+25 2 6 3+2a 2+14c 2+3 3+6 2 2+3 3+28 2+3 3+20 2+3 3+6 2 2+3 3+e "
    "2+38 2+3 3+42 26+f 11+55 3+5 4+26b 3+10 2+19 6+4a 4+a 8+11 e+12 f+11 f+c 2+2 b0+58 8+4 3+21 "
    "2 6+45 b+1e e2+16 ef+2e 12+7 37+1d e+1 b+2b 1b+23 2a+2 b+23 3+a 6+2a 3+2 2a+3 2+5 2+1 4 6+bf "
    "41+115 3+5 3+25 3+5 3+7 2 2 2 2+1e 3+34 2+6 2 4+2 2+6 4+3 3+5 5+c 6+2 2+6 75 e 10+10 63 5 "
    "3+9 2 4+4 7 2 2 2+3 2+a 3+3 6+4 5 12+28 32e+33 717+e4 7+3 4+1 d+25 2 6 3+37 8 11+16 a+6 2+6 "
    "2+6 2+6 2+6 2+6 2+6 2+6 51 1d6 36+1 c9+2a 2+5d 12+1f 6e41+48c 44+2d 3+10c 4+f b+1 15+2e "
    "11+1e 3+4f 19+d5 5 f+10 2+2 2+3 2+16 1e+33 f+31 3f+5 4 2+1 c+1b b+16 1a+1c 8+2e 1d 31+28 "
    "18+2 2+7 95+a 8+2 d+5 3+5 3+5 a+6 2+6 2+39 3+1 3+72 1e+2ba3 d+16 5+30 2305+6 d+4 39+61 "
    "22+16a 13+3f 3+35 29+b 75+4 2+86 25+19 7+19 46+1e 4+5 3+5 3+5 3+2 24+b 2+19 2+12 2+1 2+e 3+d "
    "23+7a 46+34 10c+1c 4+30 30+1f e+1d 6+25 b+1d 3+23 5+7 2+4 2b+9d 13+23 5+23 5+27 9+33 d+a 2+e "
    "2+6 2+1 2+a 2+e 2+6 2+1 4+33 d+136 a+15 b+7 19+5 2+29 2+d 41+5 3 2+2b 2+1 4 3+16 b+16 a+1e "
    "42+12 2+1 b+15 b+19 7+19 27+37 7+1 41 10+3 2+2 2+1c 2b+1c 4+1c 24+7 2+1b 1c+35 b+15 b+12 "
    "e+11 6f+48 38+32 e+32 e+23 27+1b a+16 fb+29 7+1 11+5 12+15 12+1c b 9+15 2b+11 2f+14 1c+16 "
    "d+34 3a+1 3 e+2c 21+18 1b+23 1e 3 9+22 4 d+2f f+3 16 2 24+11 2+18 14+1 40+6 2 2+3 2+e 2+9 "
    "8+2e 27+7 3+1 3+15 2+6 2+1 2+4 4 13 d+4 1f+9 2 3 2+25 2 1a 2 2d+34 13+3 15+2 1f+2f 15+1 2 "
    "b9+2e 2a+3 25+2f 15 3c+2a e 148+2b 75+3f 20+7 3 3+7 2+1 2+17 10 2 5f+7 3+26 11 2 1d b+27 8 "
    "16 c+2d 14 13+48 12 b6+20 20+8 2+24 12 32+1d 71+6 2+1 2+25 16 1a+5 2+1 2+1f f 18+2b 16 ef+12 "
    "10 2+c 2+21 7d 50+399 67+6f 6+ce d+136 90a+60 10+42f 12+5 1a+f9a 6+246 1aba+1d 6e3+238 8+1e "
    "12+4e 12+1d 13+2f 11+3 20+14 6+12 1b1+2c d4+3f 21+18 3+18 2d+4a 6 43+c 41+1 2 4c1d+6a 6+c "
    "4+8 8+9 1767+54 2+46 2+1 3 3+1 3+3 2+b 2 2+6 2+40 2+3 3+7 2+6 2+1b 2+3 2+4 2 4+6 2+154 2+18 "
    "2+18 2+1e 2+18 2+1e 2+18 2+1e 2+18 2+1e 2+18 2+7 735+81 f+6 37+32 31+3d 93+2c b+6 11 142+1d "
    "13+2b 1e5+1b e5+1d 3 d0+1e 2+2 2+1 2+6 3+4 a+1 e1+6 2+3 2+1 2+e 2+c4 3c+43 8 4b5+3 2+1a 2+1 "
    "2 3 2+9 2+3 2 2 7 5 2 2 2+2 2+1 2 3 2 2 2 2 2+1 2 3+3 2+6 2+3 2+3 2 2+9 2+10 6+2 2+4 2+10 "
    "275+19 7+19 7+19 "
)

# Hebrew_Letter.
HEBREW = "5d0+1a 5+3 f52b 2+9 2+c 2+4 2 2+1 2+1 2+9"

# Numeric, and the full-width digits, which Lucene adds.
DIGIT = (
    "30+9 5c7+5 5b+9 2 72 13+9 c7+9 c7+1 51 84+9 77+9 77+9 77+9 77+9 77+9 77+9 77+9 77+9 77+9 "
    "61+9 77+9 47+9 117+9 47+9 747+9 27+9 12d+9 81+a a6+9 7+9 b7+9 57+9 87+9 7+9 89c7+9 2a7+9 "
    "27+9 c7+9 17+9 57+9 197+9 5317+9 587+9 887+9 7+9 31d+9 4e 10 23+9 3d+9 91+9 117+9 157+9 77+9 "
    "177+9 67+9 7+13 4d+9 1a7+9 67+9 297+9 57+9 f7+9 47+9 37+9 167+9 41d7+9 927+9 57+9 87+9 217+9 "
    "5f77+9 ad5+31 941+9 1a7+9 1f7+9 f8+9 356+9 1297+9 "
)

# Katakana.
KATAKANA = "3031+4 66+1 4+5a 2+3 f1+f d1+2e 2+57 cc0f+37 b053+3 2+6 2+1 2 120+2 2+4 2d f+4"

# MidLetter.
MID_LETTER = "3a 7d 2d0 1d8 95 1a33 ddec 42 c5"

# MidNum.
MID_DIGIT = "2c f 343 20b 83+1 5f 18c 184c de0c 4 b8 f"

# MidNumLet and Single_Quote.
MID_BOTH = "27 7 1fea+1 b de2e b5 7"

# ExtendNumLet.
CONNECTOR = "5f 1fd0 10+1 14 dddf+1 19+2 f0"

# Extend, Format and ZWJ.
EXTEND = (
    "ad 253+6f 114+6 108+2c 2 2+1 2+1 2+2 47+a 2 2f+14 11 66+6 3+5 3+1 2+3 24 1f+1a 5c+a 3b+8 a "
    "19+3 2+8 2+2 2+4 2c+2 3c+8 2b+17 2+20 37+2 2+11 2+6 b+1 1e+2 39 2+6 3+1 3+2 a b+1 1b 3+2 39 "
    "2+4 5+1 3+2 4 1f+1 4 c+2 39 2+7 2+2 2+2 15+1 17+5 2+2 39 2+6 3+1 3+2 6+4 b+1 1f 3c+4 4+2 2+3 "
    "a 29+4 38 2+6 2+2 2+3 8+1 c+1 1e+2 39 2+6 2+2 2+3 8+1 c+1 10 d+3 38+1 2+6 2+2 2+3 a b+1 1e+2 "
    "47 5+5 2 2+7 13+1 3e 3+6 d+7 63 3+8 c+6 4a+1 1c 2 2 5+1 32+13 2+1 6+a 2+23 a 65+13 18+3 5+2 "
    "2+2 3+6 4+3 e+b 2 b+3 2c0+2 3b3+3 1d+2 1e+1 1f+1 41+1f a 2e+4 76+1 23 77+b 5+b dc+4 3a+9 "
    "2+1c 3 31+40 10+4 30+10 27+8 d+2 1f+c 39+d 31+13 99+2 2+14 5 7 3+2 c7+3f 20d+3 1b+4 32+4 2+9 "
    "61+20 bff+2 8e 61+1f 22b+5 6a+1 75d5+3 2+9 21+1 51+1 111 4 5 18+4 5 54+1 33+11 1b+11 e 27+7 "
    "1a+c 2d+3 30+d 25 44+d d 9+1 2e+2 33 2+2 3+1 6+1 2 2a+4 6+1 ed+7 2+1 4f31 2e2+f 11+f d0 9f+1 "
    "5a+2 202 e3 96+4 687+2 2+1 6+3 29+2 5 a6+1 23e+3 42+4 13e+1 1f+4 21+f 47+a 32+3 7b+2 36+e 2a "
    "3+1 b+3 2e+a 8 3e+2 25+d 11+1 2d d+2 31+d 9+3 2+1 5d+b 7 3 9e+b 16+3 38+1 2+6 3+1 3+2 a b+1 "
    "3+6 4+4 44+8 2 3 2+3 2+4 2 f+1 53+11 18 52+13 ec+6 3+8 1c+1 53+10 6b+c 66+e 101+e f6+5 2+1 "
    "3+3 2 2+1 8e+6 3+6 4 1d+9 29+6 2+3 9 a+a 2f+f c7+7 c8+7 2+7 53+15 2+d 7b+5 4 2+1 2+6 2 43+4 "
    "2+1 2+4 59 103+3 a+1 2 31+6 4+4 18 14d6+10 7+e 2cc9+11 9c1+4 3c+6 419 2+36 8+3 52 c+1 4cac+1 "
    "2+3 125d+2d 3+16 1e1+1 3d+4 4+15 3+6 1f+3 95+2 c+2 9+1 3 21+1 77f+36 5+31 9 f 17+4 2+e 551+6 "
    "2+10 3+6 2+1 2+4 65 a1+6 178 3e+3 1fd+3 ff+1 f4 3 8+1 6 1db+6 6e+6 ab1+4 c0c02 1f+5f 81+ef "
)

# script Han: one token a character.
HAN = (
    "2e80+19 2+58 d+d5 30 2 1a+8 f+3 3c5+19bf 41+51ff 5901+16d 3+69 7509+1 d+6 900a+a6df 21+111e "
    "2+168d 3+1d30 10+26d 9a3+21d 5e3+134a 6+2129 "
)

# script Hiragana: one token a character.
HIRAGANA = "3041+55 7+2 17f62+11e 4 f 1e+2 40ae"

# line break class SA (Thai, Lao, Khmer, Burmese, ..): one token a run.
COMPLEX = (
    "e01+39 6+e 33+1 2 2+4 2+17 2 2+16 3+4 2 2+6 e+3 121+3f 11+3f b+5 6e1+53 4 5+1 173+1d 3+4 "
    "c+2b 5+19 15+1 41+3e 2+1c 24+d 8f33+f b+4 62+62 19+4 6c21+1a 3+e f+1 4+7 "
)

# Regional_Indicator: one token a pair.
FLAG = "1f1e6+19"

# Extended_Pictographic of Unicode 11, but for © ® ™ 〰 〽, as Lucene has it: one token a picture.
PICTURE = (
    "203c d f0 5b+5 10+1 170+1 d 60 47 1a+a 5+2 c8 e8+1 b a 3b+3 2+5 2+b 2+71 b+75 3+a 2 2 7 4 7 "
    "b+1 10 3 5 2 5+2 2 c+4 2e+2 a f f 175+1 1d0+2 14+1 34 5 742 2 1bd67+ff e+2 20 3d+5 d+1 f 3+9 "
    "13+38 1c+e b 15 3+8 2+3 a+1b1 6+13d 9+109 31+7f 75+b 56+2a d+3 39+7 b+5 29+7 1f+51 d+2e 2+9 "
    "2+6b6 "
)
