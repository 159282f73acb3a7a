#include "lathe/data/own/data_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <unordered_set>

#include "lathe/data/table_parsers.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

/// A name for messages: quoted, of a long one the beginning.
std::string in_quotes(const std::string& name) {
  constexpr size_t kMost = 40;
  const auto part = slice_code_points(name, 0, kMost);
  return fmt::format("'{}{}'", part, part.size() < name.size() ? "…" : "");
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i == 0 ? "" : ", ") + in_quotes(names[i]);
  return names.size() > kMost ? fmt::format("{} and {} more", text, names.size() - kMost) : text;
}

/// What two names that people take for one have in common.
std::string likeness(const std::string& name) {
  return to_lower(table_detail::number_name(std::string(trimmed(name))));
}

void doubt_likeness(const LabelSet& set, std::vector<std::string>& doubts) {
  std::map<std::string, std::vector<std::string>> alike;
  for (const std::string& name : set.names) alike[likeness(name)].push_back(name);
  std::vector<std::string> groups;
  for (const auto& [key, names] : alike)
    if (names.size() > 1) groups.push_back(listed(names));
  if (groups.empty()) return;
  constexpr size_t kMost = 3;
  const size_t shown = std::min(groups.size(), kMost);
  doubts.push_back(
      fmt::format("labels that differ only in case, blanks or spelling are different classes: {}{}",
                  fmt::join(groups.begin(), groups.begin() + static_cast<long>(shown), "; "),
                  groups.size() > shown ? "; …" : ""));
}

void doubt_kinds(const LabelSet& set, std::vector<std::string>& doubts) {
  std::vector<std::string> numbers, words, lists;
  for (const std::string& name : set.names) {
    (table_detail::number_of(name) ? numbers : words).push_back(name);
    const std::string_view text = trimmed(name);
    if (text.size() > 1 && text.front() == '[' && text.back() == ']') lists.push_back(name);
  }
  if (!numbers.empty() && !words.empty())
    doubts.push_back(
        fmt::format("some labels are numbers ({}) and some are words ({}): all are taken for "
                    "classes, none for a value",
                    listed(numbers), listed(words)));
  if (!lists.empty())
    doubts.push_back(
        fmt::format("labels that look like lists are taken for one class each: {}; for several "
                    "labels a row write JSON Lines with {{\"label\": [\"a\", \"b\"]}}",
                    listed(lists)));
}

void doubt_counts(const TextDataset& data, std::vector<std::string>& doubts) {
  const std::vector<int64_t> counts = label_counts(data);
  std::vector<std::string> present, single;
  for (size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] > 0) present.push_back(data.label_set.names[id]);
    if (counts[id] == 1) single.push_back(data.label_set.names[id]);
  }
  if (data.label_set.kind == LabelKind::kClasses && present.size() == 1)
    doubts.push_back(
        fmt::format("every row has the label {}: there is nothing to tell apart", in_quotes(present[0])));
  if (!single.empty()) doubts.push_back(fmt::format("labels of a single row: {}", listed(single)));
}

void doubt_regression(const TextDataset& data, std::vector<std::string>& doubts) {
  constexpr size_t kFew = 20;
  std::set<float> values;
  for (const float value : data.targets) {
    if (value != std::floor(value)) return;
    values.insert(value);
    if (values.size() > kFew) return;
  }
  doubts.push_back(
      fmt::format("labels are taken for values to predict, a regression, but all are whole numbers "
                  "({}): --do_regression False makes them classes",
                  fmt::join(values, ", ")));
}

/// The texts of a row.
struct RowTexts {
  std::string_view first, second;
  bool operator==(const RowTexts&) const = default;
};
struct HashOfTexts {
  size_t operator()(const RowTexts& row) const {
    const std::hash<std::string_view> hash;
    return hash(row.first) * 31 + hash(row.second);
  }
};
RowTexts texts_of(const TextDataset& data, size_t row) {
  return {data.first[row], data.has_pairs() ? std::string_view(data.second[row]) : std::string_view()};
}

}  // namespace

std::vector<int64_t> label_counts(const TextDataset& data) {
  const size_t classes = data.label_set.names.size();
  std::vector<int64_t> counts(classes);
  for (const int32_t label : data.labels)
    if (label >= 0) ++counts[static_cast<size_t>(label)];
  if (data.label_set.kind == LabelKind::kMultiLabel)
    for (size_t i = 0; i < data.targets.size(); ++i) counts[i % classes] += data.targets[i] > 0.5f;
  return counts;
}

std::vector<std::string> label_doubts(const TextDataset& data) {
  std::vector<std::string> doubts;
  if (data.label_set.kind == LabelKind::kRegression) {
    doubt_regression(data, doubts);
    return doubts;
  }
  doubt_likeness(data.label_set, doubts);
  doubt_kinds(data.label_set, doubts);
  doubt_counts(data, doubts);
  return doubts;
}

std::string zero_bytes_doubt(const TextDataset& data) {
  const auto has_zero = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  size_t rows = 0;
  for (size_t row = 0; row < data.size(); ++row)
    rows += has_zero(data.first[row]) || (data.has_pairs() && has_zero(data.second[row]));
  const auto& names = data.label_set.names;
  const auto labels = std::count_if(names.begin(), names.end(), has_zero);
  if (rows == 0 && labels == 0) return "";
  return fmt::format(
      "zero bytes are in the texts of {} rows and in {} labels: is the file damaged? "
      "tr -d '\\000' takes them out",
      rows, labels);
}

size_t rows_in_both(const TextDataset& train, const TextDataset& data) {
  std::unordered_set<RowTexts, HashOfTexts> known;
  for (size_t row = 0; row < train.size(); ++row) known.insert(texts_of(train, row));
  size_t count = 0;
  for (size_t row = 0; row < data.size(); ++row) count += known.contains(texts_of(data, row));
  return count;
}

LengthFacts length_facts(std::vector<int32_t> lengths) {
  std::sort(lengths.begin(), lengths.end());
  const auto at = [&](double share) {
    return lengths[static_cast<size_t>(std::ceil(share * static_cast<double>(lengths.size()))) - 1];
  };
  return {at(0.5), at(0.9), at(0.99), lengths.back()};
}

int64_t cut_samples(const TokenizedDataset& data) {
  int64_t cut = 0;
  for (int64_t i = 0; i < data.size() && !data.uncut.empty(); ++i) {
    bool is_cut = false;
    for (int64_t row = data.first_row(i); row < data.first_row(i + 1); ++row)
      is_cut |= data.uncut[static_cast<size_t>(row)] > data.begins[row + 1] - data.begins[row];
    cut += is_cut;
  }
  return cut;
}

}  // namespace lathe
