#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "lathe/core/error.h"
#include "lathe/data/dataset.h"

// The first byte chooses the format; the rest is the file.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr lathe::TableFormat kFormats[] = {lathe::TableFormat::kTsv, lathe::TableFormat::kCsv,
                                             lathe::TableFormat::kJson, lathe::TableFormat::kJsonLines,
                                             lathe::TableFormat::kTrec};
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    const lathe::Table table = lathe::parse_table(bytes, kFormats[data[0] % 5], {}, "fuzz");
    for (const lathe::Column& column : table.columns)
      if (column.values.size() != table.rows()) std::abort();
    const lathe::TextDataset dataset = lathe::dataset_from_table(table);
    if (dataset.size() != table.rows() || dataset.label_set.num_labels() < 0) std::abort();
  } catch (const lathe::Error&) {  // what bad input ends in
  }
  return 0;
}
