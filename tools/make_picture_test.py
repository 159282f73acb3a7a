"""The pictures of the terminal are those of the text, and can be read as XML."""
import unittest
import xml.etree.ElementTree

import make_picture


class Pictures(unittest.TestCase):
    def test_up_to_date(self):
        for path, text in make_picture.made().items():
            self.assertEqual(path.read_text(encoding="utf-8"), text, f"run tools/make_picture.py: {path.name}")

    def test_what_is_typed_and_what_is_shown(self):
        root = xml.etree.ElementTree.fromstring(make_picture.picture('$ lathe predict a "b < c"\n\nshown\n', make_picture.COLOURS["dark"]))
        texts = root.findall("{http://www.w3.org/2000/svg}text")
        self.assertEqual([(text.get("class"), text.text) for text in texts],
                         [("typed", '$ lathe predict a "b < c"'), (None, "shown")])


if __name__ == "__main__":
    unittest.main()
