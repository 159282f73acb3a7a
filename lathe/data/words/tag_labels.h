#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/data/words/seqeval.h"
#include "lathe/data/words/word_table.h"

namespace lathe {

/// The labels of a token classifier, id = position.
class TagLabels {
 public:
  TagLabels() = default;
  /// Of a model that is only evaluated, or for tests.  Of equal names the first one counts.
  explicit TagLabels(std::vector<std::string> names);

  const std::vector<std::string>& names() const { return names_; }
  /// [names] The label of a word's tokens after its first under --label_all_tokens: I-X for B-X where there
  /// is an I-X, else the label itself.
  const std::vector<int32_t>& inner() const { return inner_; }
  /// -1 if there is no such label.
  int32_t id_of(std::string_view name) const;

 private:
  std::vector<std::string> names_;
  std::vector<int32_t> inner_;
  std::unordered_map<std::string, int32_t> ids_;
};

/// Labels by run_ner's rule: the names of a ClassLabel in its order, else the sorted tags of the training
/// data; in the order of the model's label2id where that has the same names.  *notice, if not null, gets what
/// run_ner warns of where the model's labels are others (as many, and not LABEL_0, LABEL_1, …), else "".
/// Errors: kInvalidData for training data without tags.
TagLabels choose_tag_labels(const WordTable& train, const std::vector<std::pair<std::string, int>>& label2id,
                            std::string* notice = nullptr);

/// The ids of a table's tags.  Errors: kInvalidData, naming file, line, word and tag, for one that is not
/// among the labels.
TagIds tag_ids(const WordTable& table, const TagLabels& labels);

}  // namespace lathe
