#include "lathe/data/squad.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "lathe/core/error.h"
#include "lathe/data/parquet.h"
#include "lathe/data/table_parsers.h"
#include "lathe/io/gzip.h"
#include "lathe/io/json_file.h"
#include "lathe/text/text.h"

namespace lathe {
namespace {

using nlohmann::json;

// "file: data[3].paragraphs[0].qas[5]" of what is read at the moment, for messages.
std::string element(const std::string& where, const char* key, size_t index) {
  return where + "." + key + "[" + std::to_string(index) + "]";
}

const json& array_of(const json& object, const char* key, const std::string& where) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_array())
    fail(ErrorCode::kInvalidData, "{}: found {}, expected an object with a list '{}' (SQuAD JSON)", where,
         !object.is_object()     ? object.type_name()
         : !object.contains(key) ? "no such key"
                                 : object[key].type_name(),
         key);
  return object[key];
}

int32_t answer_start(const json& value, const std::string& where) {
  if (!value.is_number_integer() || value.get<int64_t>() < 0 || value.get<int64_t>() > INT32_MAX)
    fail(ErrorCode::kInvalidData,
         "{}: \"answer_start\": found {}, expected a code point of the context, from 0", where,
         value.dump().substr(0, 40));
  return value.get<int32_t>();
}

std::string answer_text(const json& value, const std::string& where) {
  if (!value.is_string())
    fail(ErrorCode::kInvalidData, "{}: \"text\": found {}, expected a string", where, value.type_name());
  return value.get<std::string>();
}

// An integer by its decimal text.
std::string question_id(const json& qa, const std::string& where) {
  const auto id = required<json>(qa, "id", where);
  if (id.is_number_integer()) return id.dump();
  if (!id.is_string())
    fail(ErrorCode::kInvalidData, "{}: \"id\": found {}, expected a string or an integer", where,
         id.is_structured() ? id.type_name() : id.dump());
  return id.get<std::string>();
}

// Not for what is missing or null; a list may be empty.
bool has_value(const json& qa, const char* key) { return qa.contains(key) && !qa[key].is_null(); }

// A list of {text, answer_start} (SQuAD) or {text: […], answer_start: […]} (rows of the datasets library).
std::vector<SquadAnswer> read_answers(const json& qa, const std::string& where) {
  std::vector<SquadAnswer> out;
  if (!has_value(qa, "answers")) return out;
  const json& answers = qa["answers"];
  if (answers.is_object()) {
    const json& texts = array_of(answers, "text", where + ".answers");
    const json& starts = array_of(answers, "answer_start", where + ".answers");
    if (texts.size() != starts.size())
      fail(ErrorCode::kInvalidData, "{}.answers: found {} texts and {} answer_starts, expected as many",
           where, texts.size(), starts.size());
    for (size_t i = 0; i < texts.size(); ++i)
      out.push_back({answer_text(texts[i], where), answer_start(starts[i], where)});
    return out;
  }
  array_of(qa, "answers", where);
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string place = element(where, "answers", i);
    const json& answer = answers[i];
    if (!answer.is_object() || !answer.contains("text") || !answer.contains("answer_start"))
      fail(ErrorCode::kInvalidData, "{}: expected an object with \"text\" and \"answer_start\"", place);
    out.push_back({answer_text(answer["text"], place), answer_start(answer["answer_start"], place)});
  }
  return out;
}

class SquadReader {
 public:
  explicit SquadReader(const std::string& origin, QuestionIds ids = QuestionIds::kDistinct)
      : ids_wanted_(ids) {
    data_.origin = origin;
  }

  void add(const json& document, const std::string& origin) {
    const json& list = document.is_array() ? document : array_of(document, "data", origin);
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string where = element(origin + ": ", "data", i).replace(origin.size() + 2, 1, "");
      if (list[i].is_object() && list[i].contains("context"))
        read_row(list[i], where);
      else
        read_article(list[i], where);
    }
  }

  void add_lines(std::string_view text, const std::string& file) {
    table_detail::for_each_json_line(text, [&](std::string_view line, uint32_t number) {
      const json row = parse_json(line, file, {.first_line = number});
      const std::string where = file + ":" + std::to_string(number);
      if (row.is_object() && row.contains("paragraphs"))
        read_article(row, where);
      else
        read_row(row, where);
    });
  }

  void add_text(std::string_view text, const std::string& file) {
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    if (table_detail::are_json_lines(text)) return add_lines(text, file);
    const json document = parse_json(text, file);
    if (document.is_object() && document.contains("context"))
      read_row(document, file);  // the only one
    else
      add(document, file);
  }

  SquadDataset take() {
    if (data_.examples.empty())
      fail(ErrorCode::kInvalidData, "{}: no question in it; expected at least one", data_.origin);
    return std::move(data_);
  }

 private:
  void read_row(const json& row, const std::string& where) {
    auto context = required<std::string>(row, "context", where);
    // Neighbouring rows mostly ask about one paragraph.
    if (data_.contexts.empty() || data_.contexts.back() != context)
      data_.contexts.push_back(std::move(context));
    add_question(row, where);
  }

  void read_article(const json& article, const std::string& where) {
    const json& paragraphs = array_of(article, "paragraphs", where);
    for (size_t p = 0; p < paragraphs.size(); ++p) {
      const std::string place = element(where, "paragraphs", p);
      const json& qas = array_of(paragraphs[p], "qas", place);
      data_.contexts.push_back(required<std::string>(paragraphs[p], "context", place));
      for (size_t q = 0; q < qas.size(); ++q) add_question(qas[q], element(place, "qas", q));
    }
  }

  void add_question(const json& qa, const std::string& where) {
    const bool any_id = ids_wanted_ == QuestionIds::kAny;
    SquadExample example{.id = any_id && !has_value(qa, "id") ? "" : question_id(qa, where),
                         .question = required<std::string>(qa, "question", where),
                         .context = static_cast<int32_t>(data_.contexts.size()) - 1,
                         .answers = read_answers(qa, where)};
    if (!has_value(qa, "answers") && data_.unlabelled++ == 0) data_.first_unlabelled = where;
    if (!any_id && !ids_.insert(example.id).second)
      fail(ErrorCode::kInvalidData, "{}: id '{}' stands for an earlier question too; expected distinct ids",
           where, example.id);
    if (qa.contains("start_uncertain") && qa["start_uncertain"] == true) ++data_.uncertain_starts;
    const std::string& context = data_.contexts.back();
    for (const SquadAnswer& answer : example.answers) {
      const auto start = static_cast<size_t>(answer.start);
      if (slice_code_points(context, start, context.size()).starts_with(answer.text)) continue;
      if (data_.misplaced_answers++ == 0) data_.first_misplaced = example.id.empty() ? where : example.id;
    }
    data_.examples.push_back(std::move(example));
  }

  SquadDataset data_;
  QuestionIds ids_wanted_;
  std::unordered_set<std::string> ids_;
};

// Whether a column of Parquet is read.
bool is_asked_for(std::string_view column, bool) {
  constexpr std::string_view kAsked[] = {"id",      "context",         "question",
                                         "answers", "start_uncertain", "paragraphs"};
  return std::find(std::begin(kAsked), std::end(kAsked), column) != std::end(kAsked);
}

}  // namespace

void SquadDataset::truncate(size_t examples_kept) {
  if (examples_kept < examples.size()) examples.resize(examples_kept);
}

SquadDataset squad_from_json(const json& document, const std::string& origin) {
  SquadReader reader(origin);
  reader.add(document, origin);
  return reader.take();
}

SquadDataset squad_from_text(std::string_view text, const std::string& origin) {
  SquadReader reader(origin);
  reader.add_text(text, origin);
  return reader.take();
}

SquadDataset read_squad(const std::vector<std::string>& paths, QuestionIds ids) {
  if (paths.empty()) fail(ErrorCode::kUsage, "no file of questions is given; expected one or more");
  SquadReader reader(paths.front(), ids);
  for (const std::string& path : paths) {
    if (is_parquet(path))
      reader.add_lines(parquet_rows(path, is_asked_for), path);
    else
      reader.add_text(read_text(real_file_system(), path, kDataFileBytes), path);
  }
  return reader.take();
}

}  // namespace lathe
