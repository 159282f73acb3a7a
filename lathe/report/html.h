#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// Text as HTML may hold it, between tags and in attributes; bytes that are no UTF-8 and control
/// characters become U+FFFD.
std::string escaped(std::string_view text);

/// A page that loads nothing: no scripts, light and dark, from a phone's width on.  `body` is HTML and
/// follows the title; `note` comes below it.
std::string html_document(std::string_view title, std::string_view note, std::string_view body);

/// One cell of text per title and row.  words[i]: column i stands to the left, as text does.
struct HtmlTable {
  std::vector<std::string> titles;
  std::vector<bool> words;
  std::vector<std::vector<std::string>> rows;
};
std::string html_table(const HtmlTable& table);

}  // namespace lathe
