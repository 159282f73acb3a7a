#include "lathe/data/words/tag_labels.h"

#include <algorithm>
#include <set>

#include "lathe/core/error.h"
#include "lathe/data/table_parsers.h"

namespace lathe {
namespace {

std::string with_inner_part(std::string name) {
  for (size_t at = 0; (at = name.find("B-", at)) != std::string::npos; at += 2) name[at] = 'I';
  return name;
}

std::vector<std::string> sorted_tags(const WordTable& train) {
  std::set<std::string> distinct;
  for (const auto& sentence : train.tags) distinct.insert(sentence.begin(), sentence.end());
  std::vector<std::string> out(distinct.begin(), distinct.end());
  if (train.numbered)
    std::stable_sort(out.begin(), out.end(), [](const std::string& a, const std::string& b) {
      return table_detail::number_of(a) < table_detail::number_of(b);
    });
  return out;
}

bool are_unnamed(const std::vector<std::pair<std::string, int>>& label2id) {
  return std::all_of(label2id.begin(), label2id.end(), [](const auto& entry) {
    return entry.first == "LABEL_" + std::to_string(entry.second);
  });
}

std::string list(const std::vector<std::string>& names) {
  constexpr size_t kMost = 40;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) out += (i > 0 ? ", '" : "'") + names[i] + "'";
  if (names.size() > kMost) out += fmt::format(" and {} more", names.size() - kMost);
  return out;
}

}  // namespace

TagLabels::TagLabels(std::vector<std::string> names) : names_(std::move(names)) {
  for (size_t i = 0; i < names_.size(); ++i) ids_.try_emplace(names_[i], static_cast<int32_t>(i));
  for (size_t i = 0; i < names_.size(); ++i) {
    const auto same = names_[i].starts_with("B-") ? ids_.find(with_inner_part(names_[i])) : ids_.end();
    inner_.push_back(same == ids_.end() ? static_cast<int32_t>(i) : same->second);
  }
}

int32_t TagLabels::id_of(std::string_view name) const {
  const auto at = ids_.find(std::string(name));
  return at == ids_.end() ? -1 : at->second;
}

TagLabels choose_tag_labels(const WordTable& train, const std::vector<std::pair<std::string, int>>& label2id,
                            std::string* notice) {
  if (notice != nullptr) notice->clear();
  std::vector<std::string> names = train.classes.empty() ? sorted_tags(train) : train.classes;
  if (names.empty())
    fail(ErrorCode::kInvalidData, "{}: found no tag, expected words with tags to learn from", train.origin);
  if (label2id.size() != names.size() || are_unnamed(label2id)) return TagLabels(std::move(names));
  std::vector<std::string> by_id(names.size()), theirs, ours = names;
  for (const auto& [name, id] : label2id) {
    theirs.push_back(name);
    if (id >= 0 && static_cast<size_t>(id) < by_id.size()) by_id[static_cast<size_t>(id)] = name;
  }
  std::sort(theirs.begin(), theirs.end());
  std::sort(ours.begin(), ours.end());
  std::vector<std::string> numbered = by_id;
  std::sort(numbered.begin(), numbered.end());
  if (theirs == ours && numbered == ours) return TagLabels(std::move(by_id));
  if (notice != nullptr)
    *notice = fmt::format("the model has the labels {}; the data has {}, and these are used", list(theirs),
                          list(ours));
  return TagLabels(std::move(names));
}

TagIds tag_ids(const WordTable& table, const TagLabels& labels) {
  TagIds out(table.tags.size());
  for (size_t i = 0; i < table.tags.size(); ++i) {
    out[i].reserve(table.tags[i].size());
    for (size_t j = 0; j < table.tags[i].size(); ++j) {
      const int32_t id = labels.id_of(table.tags[i][j]);
      if (id < 0)
        fail(ErrorCode::kInvalidData,
             "{}: word {} ('{}') has the tag '{}', which is no label of the model or its training data; "
             "expected one "
             "of {}: mend the tag, take these sentences out, or train with data that has it",
             table.place(i), j + 1, table.words[i][j], table.tags[i][j], list(labels.names()));
      out[i].push_back(id);
    }
  }
  return out;
}

}  // namespace lathe
