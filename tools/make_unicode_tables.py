#!/usr/bin/env python3
"""Writes lathe/text/unicode_tables.inc.

The Rust crates that `tokenizers` uses carry Unicode tables of different ages (categories, decompositions and case
mappings each their own), so no version of ICU or utf8proc agrees with all of them.  This script asks the installed
`tokenizers` package what it does with every code point and writes that down as tables.

    python3 tools/make_unicode_tables.py            # rewrite the file
    python3 tools/make_unicode_tables.py --check    # exit 1 if the file differs
"""
import pathlib
import sys

import tokenizers
from charsmap import charsmap
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

TARGET = pathlib.Path(__file__).resolve().parent.parent / "lathe/text/unicode_tables.inc"
DROP, SPACE, PUNCT, MN, MARK, WORD, LOWER, NFD, LETTER, NUMBER = (1 << i for i in range(10))
NFC_MAY_CHANGE, NFKD, JOINS, EXTEND, PREPEND, CONTROL, PICTOGRAPH, CONSONANT, LINKER = (1 << i for i in range(10, 19))
HANGUL = range(0xAC00, 0xD7A4)
SHIFT = 7


def code_points():
    return (c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF)


def combining_classes(nfd):
    """Canonical combining classes, found by which marks the decomposition moves.  A class is a rank: 1 is the
    lowest class there is, marks of equal rank keep their order."""
    low, high = "\u0334", "\u0345"  # classes 1 and 240, the lowest and the highest
    marks = []
    for c in code_points():
        ch = chr(c)
        if nfd(ch) == ch and (nfd(high + ch) != high + ch or nfd(ch + low) != ch + low or ch == low):
            marks.append(ch)
    groups = []  # one representative a class, ascending
    classes = {}
    for ch in marks:
        begin, end = 0, len(groups)
        found = None
        while begin < end:
            middle = (begin + end) // 2
            other = groups[middle][0]
            if nfd(other + ch) != other + ch:
                end = middle
            elif nfd(ch + other) != ch + other:
                begin = middle + 1
            else:
                found = middle
                break
        if found is None:
            groups.insert(begin, [ch])
        else:
            groups[found].append(ch)
    for rank, group in enumerate(groups, 1):
        for ch in group:
            classes[ord(ch)] = rank
    return classes


def grapheme_flags():
    """What parts a text into graphemes, by code point.  Precompiled looks a grapheme of less than 6 bytes up as a whole and
    takes the first key that it begins with, so a map from each first byte to X gives one X for it, and one X for each
    code point of a longer grapheme."""
    keys = [bytes([b]) for b in range(0xC2, 0xF5)] + [b"a"]
    look = normalizers.Precompiled(charsmap({key: "X" for key in keys})).normalize_str
    flags = {}
    for c in code_points():
        ch = chr(c)
        f = 0
        if look("a" + ch) == "X":
            f |= JOINS
            f |= EXTEND * (look("\u00a9" + ch + "\u200d\u00a9\u0301") == "XXXXX")
            f |= LINKER * (look("\u0915" + ch + "\u0937\u0301") == "XXXX")
        elif c >= 0x80:
            f |= PREPEND * (look(ch + "a") == "X")
            f |= CONTROL * (look(ch + "\u0301\u0301") == "XX")
            f |= PICTOGRAPH * (look("\u00a9\u200d" + ch + "\u0301") == "XXXX")
            f |= CONSONANT * (look(ch + "\u094d\u0937\u0301") == "XXXX")
        elif c < 0x20 or c == 0x7F:
            f |= CONTROL
        flags[c] = f
    return flags


def compositions(nfc, decompositions):
    """(first, second) -> the code point that they compose to."""
    pairs = {}
    for c, parts in decompositions.items():
        if nfc(chr(c)) == chr(c):
            first = nfc(parts[:-1])
            assert len(first) == 1 and nfc(first + parts[-1]) == chr(c), hex(c)
            pairs[ord(first), ord(parts[-1])] = c
    return pairs


def properties():
    clean = normalizers.BertNormalizer(True, False, False, False).normalize_str
    strip = normalizers.BertNormalizer(False, False, True, False).normalize_str
    marks = normalizers.StripAccents().normalize_str
    lower = normalizers.Lowercase().normalize_str
    nfd = normalizers.NFD().normalize_str
    white = pre_tokenizers.WhitespaceSplit().pre_tokenize_str
    punct = pre_tokenizers.Punctuation().pre_tokenize_str
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    probe = Tokenizer(models.WordPiece({"[UNK]": 0, "\u0001": 1}, unk_token="[UNK]"))
    probe.add_special_tokens([AddedToken("\u0001", single_word=True, normalized=False)])
    nfc, nfkd = normalizers.NFC().normalize_str, normalizers.NFKD().normalize_str
    flags, lowers, decompositions, compatible = grapheme_flags(), {}, {}, {}
    for c in code_points():
        ch = chr(c)
        f = flags[c]
        if clean(ch) == "":
            f |= DROP
        if len(white("a" + ch + "b")) == 2:
            f |= SPACE
        if len(punct("a" + ch + "b")) == 3:
            f |= PUNCT
        kinds = [len(gpt2(before + ch)) == 1 for before in "a1!"]
        assert sum(kinds) == (0 if f & SPACE else 1), hex(c)  # the pattern's white space is everybody's
        f |= LETTER * kinds[0] | NUMBER * kinds[1]
        if marks(ch) == "":
            f |= MARK
        if c != 1 and probe.encode("\u0001" + ch).ids[0] != 1:
            f |= WORD
        if lower(ch) != ch:
            f |= LOWER
            lowers[c] = lower(ch)
        if nfd(ch) != ch:
            if c not in HANGUL:
                f |= NFD
                decompositions[c] = nfd(ch)
        elif strip(ch) == "":
            f |= MN
        if nfc(ch) != ch:
            f |= NFC_MAY_CHANGE
        if nfkd(ch) != nfd(ch):
            f |= NFKD
            compatible[c] = nfkd(ch)
        flags[c] = f
    pairs, classes = compositions(nfc, decompositions), combining_classes(nfd)
    jamo = [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]
    for c in [*classes, *(second for _, second in pairs), *jamo]:
        flags[c] |= NFC_MAY_CHANGE
    return flags, lowers, decompositions, compatible, pairs, classes


def lines(values, form="{}"):
    line = ""
    for value in values:
        item = form.format(value) + ","
        if len(line) + len(item) > 108:
            yield line
            line = ""
        line += item
    yield line


def array(kind, name, values, form="{}"):
    values = list(values)
    return [f"constexpr {kind} {name}[{len(values)}] = {{", *lines(values, form), "};"]


def mapping(name, texts):
    pool, where = [], []
    for c in sorted(texts):
        where.append(len(pool))
        pool += [ord(ch) for ch in texts[c]]
    where.append(len(pool))
    assert len(pool) < 65536
    return [*array("uint32_t", name + "From", sorted(texts), "0x{:X}"), *array("uint16_t", name + "At", where),
            *array("uint32_t", name + "Pool", pool, "0x{:X}")]


def render():
    flags, lowers, decompositions, compatible, pairs, classes = properties()
    records = sorted({(flags[c], classes.get(c, 0)) for c in code_points()})
    number = {record: i for i, record in enumerate(records)}
    assert len(records) < 256
    blocks, stage1 = {}, []
    for start in range(0, 0x110000, 1 << SHIFT):
        block = tuple(number[(flags.get(c, 0), classes.get(c, 0))] for c in range(start, start + (1 << SHIFT)))
        stage1.append(blocks.setdefault(block, len(blocks)))
    assert len(blocks) < 65536 and all(len(to) == 1 for c, to in lowers.items() if c != 0x130)
    pairs = sorted(pairs.items())
    return "\n".join(
        [
            f"// Generated by tools/make_unicode_tables.py from tokenizers {tokenizers.__version__}: what it does with each code point.",
            f"constexpr int kBlockShift = {SHIFT};",
            *array("CharInfo", "kRecords", ("{" + f"{f},{k}" + "}" for f, k in records)),
            *array("uint16_t", "kBlockOf", stage1),
            *array("uint8_t", "kRecordOf", (r for block in blocks for r in block)),
            "// Lower case; the second code point of U+0130 (U+0307) is left to the reader.",
            *array("uint32_t", "kLowerFrom", sorted(lowers), "0x{:X}"),
            *array("uint32_t", "kLowerTo", (ord(lowers[c][0]) for c in sorted(lowers)), "0x{:X}"),
            "// Full canonical decompositions, Hangul syllables left out: of kNfdFrom[i], kNfdPool[kNfdAt[i] .. kNfdAt[i+1]).",
            *mapping("kNfd", decompositions),
            "// The same for compatibility decompositions where they are not the canonical ones.",
            *mapping("kNfkd", compatible),
            "// Pairs (first << 32 | second), ascending, and what each composes to; Hangul left out.",
            *array("uint64_t", "kPairs", (a << 32 | b for (a, b), _ in pairs), "0x{:X}"),
            *array("uint32_t", "kComposed", (c for _, c in pairs), "0x{:X}"),
            "",
        ]
    )


if __name__ == "__main__":
    text = render()
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.read_text() == text else f"{TARGET} differs from what tokenizers does; run {sys.argv[0]}")
    TARGET.write_text(text)
