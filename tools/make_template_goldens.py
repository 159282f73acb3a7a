#!/usr/bin/env python3
"""Writes lathe/tokenizers/templates/testdata/goldens.json: small chat templates and what jinja2, set up as transformers
does it, makes of them.

    make_template_goldens.py            (needs jinja2)

The file: {"jinja2": version, "context": variables, "cases": [[template, text, or null where jinja2 raises]]}.
"""
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

OUT = pathlib.Path(__file__).resolve().parent.parent / "lathe/tokenizers/templates/testdata/goldens.json"

CONTEXT = {
    "a": 1, "f": 2.5, "s": "Hello, wörld!", "empty": "", "yes": True, "no": False, "nothing": None, "list": [3, 1, 2],
    "words": ["pear", "Apple", "fig", "apple"], "table": {"b": 1, "a": [1, 2.0, None], "items": "x"}, "big": 1e100,
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <there>\n"},
                 {"role": "assistant", "content": " Yes? ", "tool_calls": [{"id": "c1", "args": {"q": "é\"'"}}]},
                 {"role": "user", "content": ["part", {"type": "text"}]}],
    "tools": [{"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": ["int", "null"]}}}}],
}

EXPRESSIONS = r"""
1 + 2 * 3
7 // 2, -7 // 2, 7 % 3, (-7) % 3, 7 % -3
7.5 // 2, -7.5 // 2, 7.5 % 2, -7.5 % 2, 6.0 // -4
2 ** 10, 2 ** -1, 2 ** 3 ** 2, -2 ** 2, 2.0 ** 0.5
1 / 2, 4 / 2, 1 / 3
1 / 0
1 % 0
1.0 // 0
yes + 1, yes * 3, -yes, +yes, +a, -f
0x1f, 0b101, 0o17, 1_000, 1e3, 1.5e-7, 1E5
1e16, 1e15, 123456789012345678.0, 1e-5, 0.0001, 1e22, 0.1 + 0.2, 3.0, -0.0
big, big * big
9223372036854775807
1 < 2 < 3, 1 < 2 > 3, 3 > 2 >= 2, 1 == 1.0, 1 != 2, yes == 1
1 < "a"
"a" < "b", "a" < "B", [1, 2] < [1, 3], (1,) < (1, 0), "ä" > "z"
nothing < 1
"a" ~ 1 ~ none ~ 2.0 ~ [1]
"a" + "b" + s
"a" + 1
"ab" * 3, 2 * "xy", [1] * 2, (1, 2) * 2, "a" * -1
[1] + [2], (1,) + (2,)
[1] + (2,)
1 if yes else 2
1 if no
"x" if no else "y" if no else "z"
(1 if a > 0 else 2) + 3
a and s, no and a, no or s, a or no, not a, not nothing, not not s
not a == 2, not (a == 2)
1 in list, 5 in list, 5 not in list, "b" in table, "Hello" in s, "x" not in s
1 in "abc"
a in 5
missing in list, "a" in missing
"tab\there", "line\nend", "q\"q", 'q\'q', "back\\slash", "\x41\u00e9\U0001F600\101", "\q"
"a" "b" 'c'
[1, "a", none, true, 1.5, "it's", 'say "x"', 'both \' and "']
["\n\t\r\\", "\x00\x1f\x7f", "\u00a0\u200b\ufeff\u2028", "é世界😀"]
(1,), (), (1, 2), [], {}, {"a": 1}
{"a": 1, "b": {"c": [1]}, 3: 4, none: 5, true: 6, 1.5: 7}
{1: "a", 1.0: "b", true: "c"}
{"a": 1, "a": 2}
{[1]: 2}
list[0], list[-1], list[1:], list[:-1], list[::-1], list[::2], list[5:], list[-2:], list[2:0:-1]
list[10], list["x"], list.x, list[1.5]
s[0], s[-1], s[7:12], s[::-1], s[1:-1:3], s[100:], s[:100], s[8]
(1, 2, 3)[1:], range(10)[2:5]|list
list[::0]
table.b, table["b"], table.missing, table["missing"], table["items"], table.a[1]
table.missing.more
missing
missing.more
missing["x"]
missing + 1
missing ~ "x"
missing == missing, missing == none, missing is defined
missing|default("d"), nothing|default("d"), nothing|default("d", true), empty|d("e", boolean=true), a|default(5)
none.x, a.x, f.y, true.z
a is defined, a is undefined, missing is undefined, not missing is defined
nothing is none, a is not none, missing is none
s is string, a is string, list is string
table is mapping, list is mapping
list is iterable, s is iterable, a is iterable, table is iterable, missing is iterable
list is sequence, s is sequence, table is sequence, a is sequence, range(2) is sequence, missing is sequence
a is number, f is number, yes is number, s is number
a is integer, yes is integer, f is integer, a is float, f is float
yes is boolean, a is boolean, yes is true, no is false, a is true, nothing is false
1 is odd, 2 is odd, 2 is even, 6 is divisibleby 3, 6 is divisibleby(4)
1 is eq 1, 1 is equalto(2), 1 is ne 2, 1 is lt 2, 2 is ge(2), 1 is sameas true, none is sameas none
2 is in [1, 2], "e" is in s
"abc" is lower, "ABC" is upper, "aB" is lower, "1" is lower
range is callable, s is callable
"upper" is filter, "nope" is filter, "odd" is test
s|upper, s|lower, "hello wORLD"|title, "hELLO"|capitalize, "it's a-b (c)"|title
"ß ﬁ ŉ"|upper, "ÀÉ"|lower, "ΑΣ ΑΣΑ"|lower, "ﬁn ßa"|title, "ßx"|capitalize
"ßeta ʼn".title(), "they're bill's".title(), "x1y 2z".title(), "ΑΣ".title(), "ǆ".title()
"  x  "|trim, "xxaxx"|trim("x"), " \u3000a\u00a0"|trim
s|length, list|length, table|length, missing|length, empty|count, range(5)|length
a|length
list|first, list|last, empty|first, s|first, s|last, table|first, []|last
list|join, list|join(", "), s|join("-"), table|join("+"), words|join(d=1), messages|join(",", attribute="role")
list|list, "abc"|list, table|list, missing|list, range(3)|list
a|list
table|items|list, missing|items|list
list|sort, list|sort(reverse=true), words|sort, words|sort(case_sensitive=true), words|sort(true)
messages|sort(attribute="role")|map(attribute="role")|list
["a", 1]|sort
messages|sort(attribute="role,content")|map(attribute="role")|list
table|dictsort, {"B": 2, "a": 3, "c": 1}|dictsort, {"B": 2, "a": 3}|dictsort(true), {"b": 2, "a": 3}|dictsort(by="value", reverse=true)
words|unique|list, words|unique(true)|list, [1, 1.0, 2, true]|unique|list
list|min, list|max, words|min, words|max(case_sensitive=true), []|max, messages|max(attribute="role")
list|sum, [1.5, 2]|sum, [1]|sum(start=5), [{"x": 1}, {"x": 2}]|sum(attribute="x"), [[1], [2]]|sum(start=[])
["a"]|sum
list|reverse|list, "abc"|reverse
words|map("upper")|list, words|map("replace", "p", "b")|join, messages|map(attribute="role")|join(" ")
messages|map(attribute="nope", default="-")|join, list|map("string")|list
messages|selectattr("role", "equalto", "user")|list|length, messages|selectattr("tool_calls")|map(attribute="role")|list
messages|rejectattr("role", "eq", "user")|map(attribute="role")|list, messages|rejectattr("tool_calls", "defined")|list|length
messages|selectattr("tool_calls.0.id", "defined")|list|length
list|select("odd")|list, list|reject("odd")|list, list|select("gt", 1)|list, [0, 1, "", "a"]|select|list
list|select("nope")|list
list|batch(2)|list, list|batch(2, 0)|list
"a b a"|replace("a", "x"), "aaa"|replace("a", "b", 2), "ab"|replace("", "-")
1|string, none|string, 1.5|string ~ "x", [1]|string|length
"42"|int, "x"|int, "x"|int(7), "3.9"|int, " 12 "|int, "1_0"|int, "ff"|int(0, 16), "0x1A"|int(0, 16), 3.9|int, -3.9|int, none|int, yes|int, "1e3"|int
"2.5"|float, "x"|float, "x"|float(1.5), 3|float, "inf"|float, "1e3"|float, none|float
-5|abs, -2.5|abs, 5|abs
2.5|round, 3.5|round, 2.567|round(2), 2.1|round(method="ceil"), 2.9|round(0, "floor"), 42|round, 1234|round(-2)
"a b, c-d e_f"|wordcount
"one\ntwo\n\nthree"|indent, "one\ntwo"|indent(2, true), "a\n\nb"|indent(1, blank=true), "a\nb"|indent("> ")
"<a href='x'>&\"</a>"|escape, "<"|e, ("<"|safe)|e, ("<"|safe) + "<", "<" + ("<"|safe), ("<"|safe)|forceescape, ("<"|safe)|upper
("<"|safe) ~ "<", "<b>"|safe, [("x"|safe)]
"%s and %d"|format("a", 3), "%(x)s"|format(x=1)
"%s %r %d %5d|%-5d|%05d %+d % d" % ("a", "b", 1, 2, 3, 4, 5, 6)
"%.2f %8.3f %e %g %g %x %X %o %c %%" % (1.005, 2.5, 12345.678, 0.00001, 1e20, 255, 255, 8, "z")
"%s" % [1], "%s" % "x", "%d" % 3.7, "%5s|%-5s|%.2s" % ("ab", "cd", "efg"), "%(b)s" % table
"%d" % "x"
"%s %s" % "x"
"%s" % (1, 2)
table|tojson, list|tojson, s|tojson, none|tojson, true|tojson, 1.0|tojson, 1e100|tojson, [1, [2, []], {}]|tojson
"é\u2028\x1f\"\\/<>&'"|tojson, "é😀"|tojson(ensure_ascii=true)
table|tojson(indent=2), [[], {}, [1]]|tojson(indent=1), tools|tojson(indent=4), [1]|tojson(indent="--")
table|tojson(sort_keys=true), [1, 2]|tojson(separators=(",", ":")), {"a": 1, "b": 2}|tojson(separators=(",", ":"))
{1: 2, none: 3, true: 4, 1.5: 5}|tojson, (1, 2)|tojson
missing|tojson
range(3)|tojson
list|select|tojson
" x ".strip(), "xxaxx".strip("x"), "abcba".lstrip("ab"), "abcba".rstrip("ab"), "\n a\t".rstrip(), "éaé".strip("é")
"a,b,,c".split(","), " a  b ".split(), "a,b,c".split(",", 1), "abc".split("b")[0], "".split(","), "".split(), "a b c".split(none, 1)
"a,b,c".rsplit(",", 1), "  a  b  c ".rsplit(none, 1), " a  b  c ".split(maxsplit=1)
"a".split("")
"a\nb\r\nc\n".splitlines(), "a\n\nb".splitlines(true), "".splitlines()
"a=b=c".partition("="), "a=b=c".rpartition("="), "abc".partition("="), "abc".rpartition("=")
s.startswith("He"), s.endswith("!"), s.startswith(("x", "H")), s.startswith("e", 1), s.endswith("o", 0, 5), s.startswith(""), "".startswith("", 1)
s.find("w"), s.find("zz"), s.rfind("l"), s.index("w"), s.find("l", 5), s.count("l"), s.count(""), s.find("o", 0, 3)
s.index("zz")
"aXbX".replace("X", "-"), "aXbX".replace("X", "-", 1), "ab".replace("", "."), "ab".replace("", ".", 2)
s.upper(), s.lower(), "ab cd".title(), "ab CD".capitalize(), "x".join(["a", "b"]), "-".join("abc"), ",".join([])
",".join([1])
"x".removeprefix("x"), "ab".removesuffix("b"), "ab".removeprefix("b")
"a".ljust(3) ~ "|", "a".rjust(3), "a".center(4) ~ "|", "ab".center(5, "*"), "7".zfill(3), "-7".zfill(4)
"abc".isalpha(), "1".isdigit(), "a1".isalnum(), " ".isspace(), "A".isupper(), "a".islower(), "".isalpha(), "é".isalpha(), "½".isnumeric(), "²".isdigit()
table.items()|list, table.keys()|list, table.values()|list, table.get("b"), table.get("z"), table.get("z", 5)
table.items(), table.keys(), table.values()
table.copy() == table, list.copy(), list.count(1), list.index(2)
list.index(9)
list.append(1)
table.update({})
table.pop is defined, list.append is defined
range(3)|list, range(5, 0, -2)|list
range(1, 2, 0)
range(100001)
dict(a=1, b=2), dict([["x", 1]], y=2), dict({"a": 1}), dict()
namespace(a=1).a, namespace().a, namespace({"b": 2}).b
namespace(_x=1)
missing()
a()
raise_exception("no")
messages[0].role, messages[0]["role"], messages[-1].content[1].type, messages[2].tool_calls[0].args.q
messages[0].items()|list, messages[1:]|length, messages[9].x is defined
messages[9].x.y
tools[0].parameters.properties.x.type is iterable, tools[0].parameters.properties|items|list
list == [3, 1, 2], list == (3, 1, 2), (1, 2) == (1, 2), table == {"items": "x", "a": [1, 2, none], "b": 1}, 1 == "1", none == no, range(2) == range(2)
s == "Hello, wörld!", messages[0] == messages[0], messages[1] != messages[2]
1, 2
a|string|length
-1|abs
-a + 3
"a" is string and "b" is string
a + list|length
s|upper|lower|length
(s|upper)[0:2]
s.split(", ")[1]|upper
"%s" % s|upper
loop
attr
table|attr("b")
"a"|attr("upper") is defined
{"if": 1}["if"], {"for": 2}.for
"{{" ~ "}}" ~ "{%"
{"a": {"b": {}}}
[[1, 2], [3]]|sum(start=[])|list
{"x": [1, 2]}.x[0], [[1, 2]][0][1], [{"y": 5}][0].y, "abc"[1:][0], [1, 2].0
not missing, not list, not [], not {}, not 0.0, not "0"
"".join(["a"]) ~ "b"
"a" in ["a"] and "b" not in ["a"]
2 if 1 > 0 and no else 3
1 if missing is defined else 2
((1))
[1, 2, ]
{"a": 1, }
s.nope is defined, s.nope
"é" ~ "世"|length
1 is not defined, 1 is not string
10 is gt 9 and 10 is lt 11
table.b|string + "x"
[a, s, list][2][1]
3 in range(5), 3.0 in [3]
"{}".x
"x\
y"
""".strip("\n")

TEMPLATES = [
    "{% for x in list %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
    "{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for x in list %}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in list %}[{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}]{% endfor %}",
    "{% for x in list %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{% endfor %}",
    "{% for x in list %}{{ loop.cycle('a', 'b') }}{% endfor %}{{ loop is defined }}",
    "{% for x in list %}{{ loop }}{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}",
    "{% for x in list if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% else %}none{% endfor %}",
    "{% for x in list if x > 9 %}x{% else %}none{% endfor %}",
    "{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in a %}x{% endfor %}",
    "{% for x in none %}x{% endfor %}",
    "{% for c in 'aé😀' %}{{ c }}.{% endfor %}",
    "{% for k in table %}{{ k }} {% endfor %}",
    "{% for k, v in table.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in table|items %}{{ k }}={{ v }};{{ loop.last }}{% endfor %}",
    "{% for (i, (j, k)) in [(1, (2, 3))] %}{{ i }}{{ j }}{{ k }}{% endfor %}",
    "{% for i, j in [[1, 2], [3]] %}{% endfor %}",
    "{% for i, j in [[1, 2, 3]] %}{% endfor %}",
    "{% for x in 1, 2 %}{{ x }}{% endfor %}",
    "{% for x in list %}{% for y in list %}{{ loop.depth }}{{ x * y }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in list %}{% break %}{% else %}E{% endfor %}",
    "{% for x in list %}{% continue %}{% else %}E{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [1, 2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }}{% endfor %};{% endfor %}",
    "{% for message in messages[::-1] %}{{ loop.index0 }}{{ message.role }} {% endfor %}",
    "{% set x = 1 %}{% for i in list %}{{ x }}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(n=0) %}{% for i in list %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
    "{% set ns = namespace() %}{% set ns.x = 1 %}{% set ns.x = ns.x + 1 %}{{ ns.x }}{{ ns.y is defined }}{{ ns['x'] }}",
    "{% set x.y = 1 %}",
    "{% set table.b = 5 %}",
    "{% set x, y = 1, 2 %}{{ x }}{{ y }}",
    "{% set (x, y) = [1, 2] %}{{ x }}{{ y }}",
    "{% set x = 1, 2 %}{{ x }}",
    "{% set x = 'a' if no else 'b' %}{{ x }}",
    "{% set x %}a{{ a }}{% set y = 2 %}{{ y }}{% endset %}[{{ x }}]{{ y }}",
    "{% set x | upper | replace('B', '-') %}abc{% endset %}{{ x }}",
    "{% if no %}a{% elif a %}b{% else %}c{% endif %}",
    "{% if no %}a{% elif empty %}b{% else %}c{% endif %}",
    "{% if yes %}{% set q = 1 %}{% endif %}{{ q }}",
    "{% if missing %}a{% endif %}{% if not missing %}b{% endif %}",
    "{% if messages[0].role == 'system' and messages|length > 1 %}ok{% endif %}",
    "{% macro m(x, y=2, z='q') %}{{ x }}{{ y }}{{ z }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, z=5) }} {{ m(y=0, x=9) }}",
    "{% macro m(x, y=x) %}{{ x }}{{ y }}{% endmacro %}{{ m(1) }}{{ m() }}",
    "{% macro m(x) %}{{ x.y }}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(q=2) }}",
    "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1, x=2) }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    "{% macro m() %}{{ z }}{% endmacro %}{% set z = 5 %}{{ m() }}{% set z = 6 %}{{ m() }}",
    "{% macro m() %}{% set q = 1 %}{{ q }}{% endmacro %}{{ m() }}{{ q }}",
    "{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}{{ m is defined }}",
    "{% for x in [1, 2] %}{{ m(x) }}{% endfor %}{% macro m(x) %}{{ x }}{% endmacro %}",
    "{% macro m() %}[{{ x }}]{% endmacro %}{% for x in [1, 2] %}{{ m() }}{% endfor %}",
    "{% macro m() %}  a  {% endmacro %}{{ m() | trim }}{{ m() is string }}",
    "{% macro a(x) %}<{{ x }}>{% endmacro %}{% macro b(x) %}{{ a(x) }}{{ a(a(x)) }}{% endmacro %}{{ b(1) }}",
    "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% set x = 1 %}{% with x = 2, y = x %}{{ x }}{{ y }}{% endwith %}{{ x }}",
    "{% filter upper %}abc{{ s }}{% endfilter %}",
    "{% filter replace('a', 'b') | upper %}aaa{% endfilter %}",
    "{% raw %}{{ x }}{% y %}{# z #}{% endraw %}!",
    "  {%- raw -%}  {{ x }}  {%- endraw -%}  !",
    "a{# comment #}b{#- comment -#} c",
    "a {#- x -#} b",
    "{# a\n b #}\nc",
    "line\n  {% if yes %}\n  in\n  {% endif %}\nend\n",
    "line\n  {%+ if yes %}\n  in\n  {%+ endif %}\nend\n\n",
    "line\n  {%- if yes -%}\n  in\n  {%- endif -%}\nend",
    "{% if yes +%}\na{% endif %}",
    "  {{ a }}  \n  {{- a -}}  \n  x",
    "  {# x #}  \n  y  {# z #}\n",
    "\t{% if yes %}x{% endif %}\n\t{% if yes %}\ty{% endif %}",
    "x {% if yes %} y {% endif %} z",
    "a\r\nb\rc\r\n",
    "a\n\n",
    "\n",
    "{{ 'a\nb' }}",
    "{{ 'a\r\nb' }}",
    "{{-1}}|{{ -1 }}|{{- 1 -}}| x",
    "a  {{- 'b' }}  c {{ 'd' -}}  \n e",
    "{{ {'a': {'b': 1}} }}",
    "{{ {'a': '}}'} }}",
    "{{ '%}' }}{% if '%}' %}x{% endif %}",
    "{%if yes%}x{%endif%}{{a}}",
    "{%- for m in messages -%}\n{{ m.role }}\n{%- endfor -%}",
    "{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}",
    "  {% generation %}\n x\n  {% endgeneration %}\ny",
    "{% set range = 3 %}{{ range }}",
    "{% set loop = 3 %}{{ loop }}",
    "{{ 'x' }}{% set x = namespace(l=[]) %}{% for m in messages %}{% set x.l = x.l + [m.role] %}{% endfor %}{{ x.l }}",
    "{% set it = list|select %}{{ it|list }}{{ it|list }}",
    "{% set it = list|map('string') %}{% for x in it %}{{ x }}{% endfor %}{% for x in it %}{{ x }}{% endfor %}",
    "{{ (list|select)|length }}",
    "{{ (list|map('string'))[0] }}",
    "{% for x in [1, 2, 3] %}{% set y = x %}{% if loop.first %}{% set w = 1 %}{% endif %}{{ w }}{{ y }}{% endfor %}{{ y }}",
    "{% set a = a + 1 %}{{ a }}",
    "{% for a in [5] %}{{ a }}{% endfor %}{{ a }}",
    "{% for x in list %}{{ x if x != 1 }}{% endfor %}",
    "{% if a is defined and a is not none %}{{ a }}{% endif %}",
    "{% if not tools is defined %}{% set tools = none %}{% endif %}{{ tools|length }}",
    "{{ bos_token }}{{ eos_token|default('</s>') }}",
    "{% set sys = messages[0].content if messages[0].role == 'system' else '' %}{{ sys }}",
    "{{ messages|tojson }}",
    "{{ tools | tojson(indent=4) }}",
    "{{ messages[2].tool_calls[0].args | tojson }}",
    "{%- set ns = namespace(found=false) -%}{%- for m in messages -%}{%- if m.role == 'user' and not ns.found -%}{{ m.content }}{%- set ns.found = true -%}{%- endif -%}{%- endfor -%}",
    "{{ undefined_function('x') }}",
    "{{ none() }}",
    "{% set f = range %}{{ f(3)|list }}",
    "{% set up = s.upper %}{{ up() }}",
    "{{ [s.upper()][0] }}{{ (s).lower() }}{{ 'a'.upper().lower() }}",
    "{% macro m(x=[]) %}{{ x }}{% endmacro %}{{ m() }}{{ m([1]) }}",
    "{% macro m(x) -%} {{ x }} {%- endmacro %}[{{ m(1) }}]",
    "{% for x in [] %}{% endfor %}{{ x }}",
    "{% set x %}{% endset %}[{{ x }}]{{ x|length }}",
    "{{ a }}{{ a }}\n\n{{ a }}\n",
]


def environment():
    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)

        def _text(self, caller):
            return caller()

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def namespace(*args, **kwargs):
        if any(name.startswith("_") for name in dict(*args, **kwargs)):
            raise jinja2.exceptions.SecurityError("an underscore in front")
        return jinja2.utils.Namespace(*args, **kwargs)

    out = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[jinja2.ext.loopcontrols, Generation])
    out.filters["tojson"] = tojson
    out.globals.update(raise_exception=raise_exception, namespace=namespace)
    return out


def result(env, source):
    try:
        return env.from_string(source).render(**json.loads(json.dumps(CONTEXT)))
    except Exception:   # whatever jinja2 and Python raise
        return None


def main():
    env = environment()
    sources = ["{{ " + e + " }}" for e in EXPRESSIONS.replace("\\\n", "\\\0").split("\n")]
    sources = [s.replace("\0", "\n") for s in sources] + TEMPLATES
    cases = [[source, result(env, source)] for source in sources]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    OUT.parent.mkdir(exist_ok=True)
    context = json.dumps(CONTEXT, ensure_ascii=False)
    OUT.write_text(f'{{"jinja2": "{jinja2.__version__}", "context": {context}, "cases": [\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{OUT.name}: {len(cases)} templates, {sum(text is None for _, text in cases)} of them errors")


if __name__ == "__main__":
    main()
