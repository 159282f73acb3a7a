#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "lathe/core/error.h"
#include "lathe/data/words/tag_labels.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // The first byte chooses what the rest is.
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  lathe::WordColumns columns{.task = data[0] & 1 ? "ner" : "pos", .tags_needed = (data[0] & 2) != 0};
  if (data[0] & 4) columns.tags = "2";
  try {
    const lathe::WordTable table =
        data[0] & 8 ? lathe::words_of_table(
                          lathe::parse_table(text, lathe::TableFormat::kJson, {}, "fuzz"), columns,
                          data[0] & 16 ? std::vector<std::string>{"O", "B-X"} : std::vector<std::string>{})
                    : lathe::words_of_text(text, lathe::word_format("fuzz", text), columns, "fuzz");
    if (table.lines.size() != table.size() || (table.has_tags() && table.tags.size() != table.size()))
      std::abort();
    for (size_t i = 0; i < table.size(); ++i) {
      if (table.has_tags() && table.tags[i].size() != table.words[i].size()) std::abort();
      if (table.place(i).empty()) std::abort();
    }
    const lathe::TagLabels labels = lathe::choose_tag_labels(table, {{"O", 0}, {"B-X", 1}});
    const lathe::TagIds ids = lathe::tag_ids(table, labels);
    lathe::seqeval_metrics(lathe::seqeval(ids, ids, labels.names()), true);
    lathe::seqeval(table.tags, table.tags, lathe::TagStyle::kSuffix);
  } catch (const lathe::Error&) {  // what bad input ends in
  }
  return 0;
}
