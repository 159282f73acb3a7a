#include "lathe/data/parquet_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/data/parquet_part.h"

namespace lathe {
namespace {

using parquet_detail::the_part;

/// The values of a column as the part takes them.
struct Values {
  std::vector<unsigned char> there;
  std::vector<float> numbers;
  std::string texts;
  std::vector<int64_t> text_ends, list_ends;

  void add_text(std::string_view text) {
    texts += text;
    text_ends.push_back(static_cast<int64_t>(texts.size()));
  }
  void add(const Cell& cell, int kind) {
    there.push_back(cell.kind != Cell::Kind::kNone);
    numbers.push_back(cell.number);
    if (kind == 0) add_text(cell.text);
    for (const std::string& text : cell.texts) add_text(text);
    list_ends.push_back(static_cast<int64_t>(text_ends.size()));
  }
  LatheParquetCells view() const {
    return {there.data(), numbers.data(), texts.data(), text_ends.data(), list_ends.data()};
  }
};

int kind_of(Cell::Kind kind) { return kind == Cell::Kind::kNumber ? 1 : kind == Cell::Kind::kTexts ? 2 : 0; }

/// What the cells of an added column are, by the first that is one.
int kind_of(std::span<const std::vector<Cell>> cells, size_t column) {
  for (const std::vector<Cell>& row : cells)
    if (row[column].kind != Cell::Kind::kNone) return kind_of(row[column].kind);
  return 0;
}

}  // namespace

ParquetWriter::ParquetWriter(std::vector<std::string> added, std::function<void(std::string_view)> put,
                             std::optional<std::string> like)
    : added_(std::move(added)), put_(std::move(put)), like_(std::move(like)) {
  the_part();
}

ParquetWriter::~ParquetWriter() {
  if (writer_ != nullptr) the_part().free(writer_);
}

/// work: (error, error_bytes) -> 0 or 1.
template <typename Work>
void ParquetWriter::ask(Work work) {
  char error[500] = "";
  const bool failed = work(error, sizeof error) != 0;
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, {}));
  if (failed)
    fail(ErrorCode::kInvalidData, "the table cannot be written as Parquet: {}; write .csv or .jsonl", error);
}

void ParquetWriter::begin(const Table& part, std::span<const std::vector<Cell>> cells) {
  if (!like_)
    for (const Column& column : part.columns) names_.push_back(column.name);
  std::vector<LatheParquetColumn> columns;
  for (const std::string& name : names_) columns.push_back({name.c_str(), 0});
  for (size_t i = 0; i < added_.size(); ++i) columns.push_back({added_[i].c_str(), kind_of(cells, i)});
  const auto sink = [](void* context, const char* bytes, size_t count) {
    auto& self = *static_cast<ParquetWriter*>(context);
    try {
      self.put_({bytes, count});
      return 0;
    } catch (...) {
      self.thrown_ = std::current_exception();
      return 1;
    }
  };
  ask([&](char* error, size_t error_bytes) {
    return the_part().create(like_ ? like_->c_str() : nullptr, columns.data(),
                             static_cast<int>(columns.size()), sink, this, &writer_, error, error_bytes);
  });
}

void ParquetWriter::write(const Table& part, std::span<const std::vector<Cell>> cells) {
  if (writer_ == nullptr) begin(part, cells);
  std::vector<Values> values;
  for (const std::string& name : names_) {
    Values& column = values.emplace_back();
    const Column* found = part.find(name);
    for (size_t row = 0; row < part.rows(); ++row)
      column.add(found == nullptr ? Cell{} : Cell::of(found->as_written(row)), 0);
  }
  if (!like_) check_known_columns(part, names_);
  for (size_t i = 0; i < added_.size(); ++i) {
    Values& column = values.emplace_back();
    const int kind = kind_of(cells, i);
    for (const std::vector<Cell>& row : cells) column.add(row[i], kind);
  }
  std::vector<LatheParquetCells> views;
  for (const Values& column : values) views.push_back(column.view());
  ask([&](char* error, size_t error_bytes) {
    return the_part().append(writer_, static_cast<int64_t>(part.rows()), views.data(), error, error_bytes);
  });
}

void ParquetWriter::finish() {
  ask([&](char* error, size_t error_bytes) { return the_part().finish(writer_, error, error_bytes); });
}

}  // namespace lathe
