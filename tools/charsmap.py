"""Writes SentencePiece's precompiled_charsmap: a map from byte strings to texts as a double array, then the texts.

Source of the format: the Darts-clone library and sentencepiece's normalizer.cc.
"""
import struct


def charsmap(pairs):
    """pairs: dict from keys (bytes or str, not empty) to texts.  Gives the bytes that normalizers.Precompiled takes."""
    texts, where = b"", {}
    root = {}
    for key, text in pairs.items():
        if text not in where:
            where[text] = len(texts)
            texts += text.encode() + b"\0"
        node = root
        for byte in key.encode() if isinstance(key, str) else key:
            node = node.setdefault(byte, {})
        node[0] = where[text]
    units, taken, bases = {0: 0}, {0}, set()
    queue, lowest = [(0, root)], 1
    for at, node in queue:
        labels = sorted(node)
        base = lowest
        while base in bases or any(base ^ label in taken for label in labels):
            base += 1
        while lowest in taken:
            lowest += 1
        bases.add(base)
        taken.update(base ^ label for label in labels)
        offset = at ^ base
        assert offset < 1 << 21
        units[at] |= offset << 10 | (0 in node) << 8
        for label in labels:
            if label == 0:
                units[base] = 1 << 31 | node[0]
            else:
                units[base ^ label] = label
                queue.append((base ^ label, node[label]))
    array = [units.get(i, 0) for i in range((max(units) | 255) + 1)]
    return struct.pack(f"<I{len(array)}I", 4 * len(array), *array) + texts
