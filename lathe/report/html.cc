#include "lathe/report/html.h"

#include <fmt/format.h>

#include "lathe/text/text.h"
#include "lathe/text/unicode.h"

namespace lathe {
namespace {

constexpr const char* kStyle =
    ":root{--text:#1d2733;--soft:#5a6775;--page:#fff;--line:#dde3e9;--c0:#2874c4;--c1:#bd5228;--c2:#27804f;"
    "--c3:#8a5cc2;--c4:#8c6a0e;--c5:#c2417f}"
    "@media(prefers-color-scheme:dark){:root{--text:#dbe3ea;--soft:#93a1ae;--page:#12171d;--line:#2a333d;"
    "--c0:#58a6ff;--c1:#f0883e;--c2:#56d08c;--c3:#bc8cff;--c4:#e3b341;--c5:#ff7eb6}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;"
    "background:var(--page);color:var(--text)}"
    "h1{font-size:1.6rem;margin-bottom:0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2.5rem}"
    "p,figcaption{margin:.2rem 0;color:var(--soft)}.scroll{overflow-x:auto}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;border:1px solid var(--line);padding:.5rem .75rem}"
    "table{border-collapse:collapse;margin:.5rem 0 1rem;font-variant-numeric:tabular-nums}"
    "th,td{padding:.25rem .75rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}"
    "th{font-weight:600}td.text,th.text{text-align:left;white-space:normal;overflow-wrap:break-word}"
    "th:first-child{position:sticky;left:0;background:var(--page)}td.zero{color:var(--soft);opacity:.75}"
    "td.share{background:color-mix(in srgb,var(--c0) var(--share),transparent)}"
    "td.text:last-child{min-width:min(18rem,60vw)}pre span{display:inline-block}"
    "@media(max-width:30rem){table{font-size:.8rem}th,td{padding:.25rem}td.text:last-child{min-width:40vw}}"
    "svg{width:100%;height:auto}svg text{font:13px system-ui,sans-serif;fill:currentColor}"
    "svg rect{fill:var(--c0)}"
    ".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:1rem 2rem}"
    "figure{margin:1rem 0 0}.curve{fill:none;stroke-width:1.6;stroke-linejoin:round}"
    ".faint{stroke-width:1;opacity:.35}"
    ".bars{display:grid;grid-template-columns:fit-content(40%) 1fr;gap:.6rem .75rem;max-width:44rem;"
    "margin:1rem 0;align-items:center;overflow-wrap:anywhere}.bars>div:nth-child(odd){text-align:right}"
    ".bar{display:flex;align-items:center;gap:.5rem;line-height:1.3}"
    ".bar::before{content:\"\";flex:none;width:calc((100% - 6.5rem)*var(--share));min-width:1px;height:.6rem;"
    "background:currentColor}.bar span{color:var(--soft);white-space:nowrap;font-size:.85rem}"
    ".grid{stroke:var(--line)}figure svg text{font-size:12px;fill:var(--soft)}"
    ".k0{stroke:var(--c0);color:var(--c0)}.k1{stroke:var(--c1);color:var(--c1)}"
    ".k2{stroke:var(--c2);color:var(--c2)}.k3{stroke:var(--c3);color:var(--c3)}"
    ".k4{stroke:var(--c4);color:var(--c4)}.k5{stroke:var(--c5);color:var(--c5)}.dot{fill:currentColor}";

}  // namespace

std::string escaped(std::string_view text) {
  std::string valid, out;
  for (const char32_t c : decode_utf8(text)) {
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0);
    unicode::append_utf8(control ? U'\ufffd' : c, &valid);
  }
  for (const char c : valid) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string html_document(std::string_view title, std::string_view note, std::string_view body) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<p>{2}</p>\n{3}</body>\n"
      "</html>\n",
      escaped(title), kStyle, escaped(note), body);
}

std::string html_table(const HtmlTable& table) {
  const auto line = [&](const char* tag, const std::vector<std::string>& cells) {
    std::string html = "<tr>";
    for (size_t i = 0; i < cells.size(); ++i)
      html +=
          fmt::format("<{0}{1}>{2}</{0}>", tag,
                      i < table.words.size() && table.words[i] ? " class=\"text\"" : "", escaped(cells[i]));
    return html + "</tr>\n";
  };
  std::string html = "<div class=\"scroll\"><table>\n";
  if (!table.titles.empty()) html += line("th", table.titles);
  for (const std::vector<std::string>& row : table.rows) html += line("td", row);
  return html + "</table></div>\n";
}

}  // namespace lathe
