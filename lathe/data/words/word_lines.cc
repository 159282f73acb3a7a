#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "lathe/core/error.h"
#include "lathe/data/words/word_table.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

constexpr std::array<std::string_view, 10> kConllU = {"ID",    "FORM", "LEMMA",  "UPOS", "XPOS",
                                                      "FEATS", "HEAD", "DEPREL", "DEPS", "MISC"};
constexpr size_t kForm = 1, kUpos = 3;

struct Line {
  uint32_t number;  ///< 0: the end of a sentence
  std::string_view text;
};

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; }

// Without the ends of lines.
std::vector<Line> lines_of(std::string_view text) {
  std::vector<Line> out;
  for (uint32_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back({number, line});
  }
  return out;
}

// Fields between tabs, without empty ones at the end, or words between blanks.
void split(std::string_view line, bool tabs, std::vector<std::string_view>& fields) {
  fields.clear();
  if (tabs) {
    while (line.ends_with('\t')) line.remove_suffix(1);
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find('\t', begin), line.size());
      fields.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    return;
  }
  for (size_t begin = 0; (begin = line.find_first_not_of(" \t", begin)) != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(" \t", begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    begin = end;
  }
}

bool is_entity_tag(std::string_view tag) {
  return tag == "O" || (tag.size() > 2 && tag[1] == '-' &&
                        std::string_view("BIESLUM").find(tag[0]) != std::string_view::npos);
}

int64_t number_in(std::string_view text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : -1;
}

// The column that a flag names, from 0.
size_t column_of(const std::string& name, bool conll_u, size_t count, const std::string& origin,
                 const char* flag) {
  if (conll_u) {
    std::string upper = name;
    for (char& c : upper)
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    for (size_t i = 0; i < kConllU.size(); ++i)
      if (upper == kConllU[i]) return i;
  }
  const int64_t number = number_in(name);
  if (number < 1 || static_cast<size_t>(number) > count)
    fail(ErrorCode::kNotFound, "{}: no column '{}', which {} names; expected {}a number from 1 to {}", origin,
         name, flag, conll_u ? "FORM, UPOS, XPOS or another name of CoNLL-U, or " : "", count);
  return static_cast<size_t>(number) - 1;
}

class Sentences {
 public:
  Sentences(const std::string& origin, bool tagged) : tagged_(tagged) { out_.origin = origin; }

  void add(const Line& line, std::string_view word, std::string_view tag) {
    if (!open_) {
      out_.words.emplace_back();
      out_.lines.push_back(line.number);
      if (tagged_) out_.tags.emplace_back();
    }
    open_ = true;
    out_.words.back().emplace_back(word);
    if (tagged_) out_.tags.back().emplace_back(tag);
  }
  void end() { open_ = false; }
  WordTable take(const std::string& words_from, const std::string& tags_from) && {
    out_.words_from = words_from;
    if (tagged_) out_.tags_from = tags_from;
    return std::move(out_);
  }

 private:
  WordTable out_;
  bool tagged_, open_ = false;
};

// A word a line, with one number of columns.
class WordLines {
 public:
  WordLines(std::string_view text, const WordColumns& columns, const std::string& origin)
      : columns_(columns), origin_(origin) {
    std::vector<Line> all = lines_of(text);
    find_shape(all);
    keep_words(all);
    choose();
  }

  WordTable read() {
    Sentences out(origin_, tag_ < count_);
    for (const Line& line : lines_) {
      if (line.number == 0) {
        out.end();
        continue;
      }
      split(line.text, tabs_, fields_);
      for (const size_t column : {word_, tag_})
        if (column < count_ && fields_[column].empty())
          fail(ErrorCode::kInvalidData, "{}:{}: column {} is empty, expected {}: '{}'", origin_, line.number,
               column + 1, column == word_ ? "a word" : "a tag", line.text.substr(0, 60));
      out.add(line, fields_[word_], tag_ < count_ ? fields_[tag_] : "");
    }
    return std::move(out).take(fmt::format("column {}", word_ + 1), fmt::format("column {}", tag_ + 1));
  }

 private:
  // By the first line that is no comment: tabs or blanks, how many columns.
  void find_shape(const std::vector<Line>& all) {
    const auto first = std::find_if(all.begin(), all.end(), [](const Line& line) {
      return !is_blank(line.text) && line.text[0] != '#' && !line.text.starts_with("-DOCSTART-");
    });
    if (first == all.end())
      fail(ErrorCode::kInvalidData,
           "{}: found no word, expected a word and its tag on each line, such as \"EU B-ORG\"", origin_);
    tabs_ = first->text.find('\t') != std::string_view::npos;
    split(first->text, tabs_, fields_);
    count_ = fields_.size();
    shape_line_ = first->number;
  }

  // A word may be or begin with '#', too: then its line has all columns.
  bool is_comment(std::string_view line) {
    if (line[0] != '#' || fields_.size() != count_) return line[0] == '#';
    const std::string_view last = fields_.back();
    const bool lower = std::any_of(last.begin(), last.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    return !tabs_ && fields_[0] == "#" && count_ > 1 && lower && !is_entity_tag(last);
  }

  // The lines of words, and a line 0 where a sentence ends.
  void keep_words(const std::vector<Line>& all) {
    std::vector<size_t> index;
    entity_tags_.assign(count_, true);
    int64_t next = 1;
    for (const Line& line : all) {
      const bool first = lines_.empty() || lines_.back().number == 0;
      if (is_blank(line.text) || line.text.starts_with("-DOCSTART-")) {
        if (!first) lines_.push_back({0, {}});
        next = 1;
        continue;
      }
      split(line.text, tabs_, fields_);
      if (first && is_comment(line.text)) continue;
      if (fields_.size() != count_) fail_count(line);
      counted_ &= number_in(fields_[0]) == next++;
      for (size_t i = 0; i < count_; ++i)
        if (entity_tags_[i]) entity_tags_[i] = is_entity_tag(fields_[i]);
      lines_.push_back(line);
    }
  }

  [[noreturn]] void fail_count(const Line& line) const {
    fail(ErrorCode::kInvalidData,
         "{}:{}: found {} column{} between {}, expected {} as in line {}: '{}'; mend the line, or put a "
         "blank line where a "
         "sentence ends",
         origin_, line.number, fields_.size(), fields_.size() == 1 ? "" : "s", tabs_ ? "tabs" : "blanks",
         count_, shape_line_, line.text.substr(0, 60));
  }

  void choose() {
    counted_ &= count_ > (columns_.tags_needed ? 2 : 1);
    word_ = columns_.words ? column_of(*columns_.words, false, count_, origin_, "--text_column_name")
                           : static_cast<size_t>(counted_);
    tag_ = columns_.tags ? column_of(*columns_.tags, false, count_, origin_, "--label_column_name")
                         : column_of_task();
    if (tag_ == count_ && columns_.tags_needed)
      fail(ErrorCode::kInvalidData,
           "{}:{}: found {} column{}, expected a word and its tag, parted by a tab or a blank, such as \"EU "
           "B-ORG\"",
           origin_, shape_line_, count_, count_ == 1 ? "" : "s");
  }

  // Where the tags of --task_name are; count_ if no column comes after the word.
  size_t column_of_task() const {
    const size_t first = word_ + 1;
    if (first >= count_) return count_;
    if (columns_.task == "pos") return first;
    if (columns_.task == "chunk") return std::min(first + 1, count_ - 1);
    const auto begin = entity_tags_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto of_entities = std::find(begin, entity_tags_.end(), true);
    if (of_entities == entity_tags_.end()) return count_ - 1;
    if (counted_) return static_cast<size_t>(of_entities - entity_tags_.begin());
    const auto last = std::find(entity_tags_.rbegin(), entity_tags_.rend(), true);
    return static_cast<size_t>(entity_tags_.rend() - last) - 1;
  }

  const WordColumns& columns_;
  const std::string& origin_;
  std::vector<Line> lines_;
  std::vector<std::string_view> fields_;
  std::vector<bool> entity_tags_;  ///< [columns] whether all values are O, B-… and their like
  bool tabs_ = false, counted_ = true;
  size_t count_ = 0, word_ = 0, tag_ = 0;
  uint32_t shape_line_ = 0;
};

// Whether a line of ten columns is a word: no multiword token ("1-2"), no empty node ("8.1").
bool is_word(std::string_view id, int64_t& next, const Line& line, const std::string& origin) {
  const size_t mark = id.find_first_of("-.");
  if (mark != std::string_view::npos && number_in(id.substr(0, mark)) >= 0 &&
      number_in(id.substr(mark + 1)) >= 0)
    return false;
  if (number_in(id) != next)
    fail(ErrorCode::kInvalidData,
         "{}:{}: found the ID '{}', expected {}, or a range or an empty node such as {}-{} or {}.1; a blank "
         "line ends a "
         "sentence",
         origin, line.number, id.substr(0, 40), next, next, next + 1, next);
  ++next;
  return true;
}

WordTable read_conll_u(std::string_view text, const WordColumns& columns, const std::string& origin) {
  const size_t word =
      columns.words ? column_of(*columns.words, true, 10, origin, "--text_column_name") : kForm;
  const size_t tag = columns.tags ? column_of(*columns.tags, true, 10, origin, "--label_column_name") : kUpos;
  const auto has_value = [](const auto& sentence) {
    return std::any_of(sentence.begin(), sentence.end(), [](const std::string& t) { return t != "_"; });
  };
  Sentences sentences(origin, true);
  std::vector<std::string_view> fields;
  int64_t next = 1;
  for (const Line& line : lines_of(text)) {
    if (is_blank(line.text)) {
      sentences.end();
      next = 1;
      continue;
    }
    if (line.text[0] == '#') continue;
    split(line.text, true, fields);
    if (fields.size() != kConllU.size())
      fail(ErrorCode::kInvalidData,
           "{}:{}: found {} column{} between tabs, expected the ten of CoNLL-U: '{}'", origin, line.number,
           fields.size(), fields.size() == 1 ? "" : "s", line.text.substr(0, 60));
    if (!is_word(fields[0], next, line, origin)) continue;
    for (const size_t column : {word, tag})
      if (fields[column].empty())
        fail(ErrorCode::kInvalidData, "{}:{}: column {} is empty, expected a text, or _ for none", origin,
             line.number, kConllU[column]);
    sentences.add(line, fields[word], fields[tag]);
  }
  const auto from = [](size_t column) { return fmt::format("column {}", kConllU[column]); };
  WordTable out = std::move(sentences).take(from(word), from(tag));
  if (out.words.empty())
    fail(ErrorCode::kInvalidData, "{}: found no word, expected lines of the ten columns of CoNLL-U", origin);
  if (std::any_of(out.tags.begin(), out.tags.end(), has_value)) return out;
  if (columns.tags_needed)
    fail(ErrorCode::kInvalidData,
         "{}: column {} has no value in it, only _; expected tags: name another column with "
         "--label_column_name, such as "
         "UPOS or XPOS",
         origin, kConllU[tag]);
  out.tags.clear();
  out.tags_from.clear();
  return out;
}

}  // namespace

WordFormat word_format(std::string_view path, std::string_view head) {
  if (path.ends_with(".gz")) path.remove_suffix(3);
  for (const char* extension : {".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet"})
    if (path.ends_with(extension)) return WordFormat::kTable;
  if (path.ends_with(".conllu")) return WordFormat::kConllU;
  std::vector<std::string_view> fields;
  for (size_t begin = 0; begin < head.size();) {
    const size_t end = std::min(head.find('\n', begin), head.size());
    const std::string_view line = head.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty() || line[0] == '#' || is_blank(line)) continue;
    split(line.substr(0, line.find('\r')), true, fields);
    const bool ten = fields.size() == kConllU.size() && (fields[0] == "1" || fields[0].starts_with("1-"));
    return ten ? WordFormat::kConllU : WordFormat::kLines;
  }
  return WordFormat::kLines;
}

WordTable words_of_text(std::string_view text, WordFormat format, const WordColumns& columns,
                        const std::string& origin) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  check_utf8(text, origin);
  if (format == WordFormat::kConllU) return read_conll_u(text, columns, origin);
  return WordLines(text, columns, origin).read();
}

}  // namespace lathe
